#include <ATen/ops/zeros_like.h>

#include <sstream>
#include <stdexcept>

#include "tests/fuzz_nn/row.h"

namespace weft::fuzz_nn {

namespace {

/// Possible sizes of each letter.
const std::map<char, std::vector<int>> kSizes = {{'b', {1, 2, 3}},
                                                 {'t', {1, 2, 3, 5, 17, 64, 70}},
                                                 {'w', {1, 2, 3, 8, 16, 20}},
                                                 {'n', {1, 2, 5, 16, 33}},
                                                 {'r', {1, 2, 7, 65, 130}},
                                                 {'c', {1, 2, 3, 8, 9}},
                                                 {'k', {1, 2}},
                                                 {'h', {1, 2, 3}},
                                                 {'f', {1, 2, 8, 9}},
                                                 {'s', {1, 2, 3, 4, 7}},
                                                 {'C', {2, 3, 8, 9}},
                                                 {'S', {2, 3, 4, 7}},
                                                 {'K', {1, 2, 3}},
                                                 {'O', {1, 3}}};

}  // namespace

int64_t Case::size(char letter) const {
  if (letter >= '0' && letter <= '9') return letter - '0';
  switch (letter) {
    case 'H':  // query heads
      return size('k') * (flag(501) ? 1 : 2);
    case 'Q':  // queries, keys and values
      return 3 * size('h') * size('w');
    case 'e':
      return 2 * size('f');
    case 'd':
      return 2 * size('b');
    case 'D':
      return 2 * size('c');
    case 'T':
      return 2 * size('c') + 1;
    default:
      break;
  }
  test::Random random = this->random(letter);
  if (random.one_in(20)) return 0;
  return random.of(kSizes.at(letter));
}

int64_t Case::number(int which, int64_t good) {
  test::Random random = this->random(2000 + which);
  if (!random.one_in(10)) return good;
  odd_ = true;
  return random.of(std::vector<int64_t>{-1, 0, 1, 2, 3, good + 1, 2 * good, -good});
}

Parameter& Case::hold(const at::Tensor& value, bool always_bound) {
  Parameter& parameter = held_.emplace_back();
  parameter.value = value;
  const bool bound = always_bound || (flag(9) && value.defined() && value.requires_grad());
  if (bound && value.defined()) parameter.gradient = at::zeros_like(value.detach(), at::MemoryFormat::Contiguous);
  return parameter;
}

at::Tensor Case::held_gradient(const at::Tensor& value) const {
  for (const Parameter& parameter : held_) {
    if (parameter.value.is_same(value)) return parameter.gradient;
  }
  return {};
}

Spec::Spec(const char* text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word.back() == ':' || word.back() == '~') {
      types = word.substr(0, word.size() - 1);
      differentiable = word.back() == '~';
    } else {
      arguments.push_back(word);
    }
  }
}

void expect(bool holds) {
  if (!holds) throw std::invalid_argument("no formula");
}

}  // namespace weft::fuzz_nn
