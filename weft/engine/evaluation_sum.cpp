#include "weft/engine/evaluation_sum.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr const char* kBad[] = {"nan", "inf", "-inf", "too large"};
constexpr auto kKinds = static_cast<int64_t>(std::size(kBad));
constexpr double kLimit = 0x1p287;  // limit of ExactSum

/// An index into kBad, or -1.
int64_t kind_of(double loss) {
  if (std::isnan(loss)) return 0;
  if (std::isinf(loss)) return loss > 0.0 ? 1 : 2;
  return std::abs(loss) < kLimit ? -1 : 3;
}

std::vector<int64_t> reduced(const std::vector<int64_t>& values, ReduceOp op, const Group& group, at::Device device) {
  at::Tensor shared = at::tensor(values, at::TensorOptions(at::kLong)).to(device);
  group.all_reduce(shared, op, "evaluation loss").wait();
  shared = shared.cpu();
  const auto* data = shared.const_data_ptr<int64_t>();
  return {data, data + shared.numel()};
}

}  // namespace

void EvaluationSum::add(int64_t place, const LossValue& loss, const LossCount& hits, const LossCount& top5) {
  if (loss.sum.is_cpu()) {
    return add(place, {.loss = loss.sum.item<double>(), .count = loss.count, .hits = hits, .top5 = top5});
  }
  const auto on_device = [options = loss.sum.options().dtype(at::kDouble)](const LossCount& number) {
    const at::Tensor& known = number.on_device();
    return known.defined() ? known.to(at::kDouble).reshape({}) : at::full({}, int64_t{number}, options);
  };
  places_.push_back(place);
  unread_.push_back(at::stack({loss.sum.to(at::kDouble).reshape({}), on_device(loss.count), on_device(hits), on_device(top5)}));
}

void EvaluationSum::read(IdChecks& ids) {
  if (unread_.empty()) return ids.read();
  const std::vector<int64_t> places = std::exchange(places_, {});
  const at::Tensor all = ids.to_host({at::cat(std::exchange(unread_, {})).view(at::kLong)}).view(at::kDouble);
  const auto* values = all.const_data_ptr<double>();
  for (const int64_t place : places) {
    const auto count = [values](int i) { return static_cast<int64_t>(values[i]); };
    add(place, {.loss = values[0], .count = count(1), .hits = count(2), .top5 = count(3)});
    values += 4;
  }
}

void EvaluationSum::add(int64_t place, const EvaluationResult& sums) {
  const int64_t kind = kind_of(sums.loss);
  if (kind >= 0) {
    first_bad_ = std::min(first_bad_, place * kKinds + kind);
  } else {
    (sums.loss < 0.0 ? below_ : above_).add(std::abs(sums.loss));
  }
  count_ += sums.count;
  hits_ += sums.hits;
  top5_ += sums.top5;
}

EvaluationResult EvaluationSum::total(const Group& group, at::Device device, int64_t steps_done) {
  const int64_t bad = reduced({first_bad_}, ReduceOp::min, group, device)[0];
  std::vector<int64_t> words;
  for (ExactSum* sum : {&above_, &below_}) {
    sum->carry();
    words.insert(words.end(), sum->words().begin(), sum->words().end());
  }
  words.insert(words.end(), {count_, hits_, top5_});
  words = reduced(words, ReduceOp::sum, group, device);
  if (bad != kNone) {
    throw NumericError(fmt::format("evaluation after step {}: the loss of micro-batch {} is {}; {}", steps_done, bad / kKinds,
                                   kBad[bad % kKinds],
                                   steps_done == 0 ? "no step came before it: check the data, or the weights"
                                                   : "lower the learning rate, clip, or check the data"));
  }
  ExactSum above, below;
  const auto length = static_cast<std::ptrdiff_t>(above.words().size());
  std::copy_n(words.begin(), length, above.words().begin());
  std::copy_n(words.begin() + length, length, below.words().begin());
  const auto counts = words.end() - 3;
  const int64_t count = counts[0], hits = counts[1], top5 = counts[2];
  if (count == 0) {
    throw InputError(
        fmt::format("evaluation after step {}: no target counted in the whole evaluation set; check the data", steps_done));
  }
  return {(above.value() - below.value()) / static_cast<double>(count), count, hits, top5};
}

}  // namespace weft
