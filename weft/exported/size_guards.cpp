#include "weft/exported/size_guards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

/// What is no arithmetic on the number of samples, or has no value.
struct Unreadable {};
struct Undefined {};

/// Evaluates a condition: comparisons, sums, products, floor division and remainder, Max and Min, and, or, not.
class Condition {
 public:
  Condition(std::string_view text, int64_t samples) : rest_(text), samples_(samples) {}

  bool holds() {
    const int64_t value = any();
    if (!rest_.empty()) throw Unreadable();
    return value != 0;
  }

 private:
  bool take(std::string_view token) {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) throw Unreadable();
  }

  int64_t any() {
    int64_t value = all();
    while (take("or ")) value = std::max<int64_t>(value != 0, all() != 0);
    return value;
  }
  int64_t all() {
    int64_t value = negated();
    while (take("and ")) value = std::min<int64_t>(value != 0, negated() != 0);
    return value;
  }
  int64_t negated() {
    bool is_negated = false, any = false;
    for (; take("not "); any = true) is_negated = !is_negated;
    const int64_t value = compared();
    return any ? (value != 0) != is_negated : value;
  }

  int64_t compared() {
    const int64_t left = sum();
    if (take("==")) return left == sum();
    if (take("!=")) return left != sum();
    if (take("<=")) return left <= sum();
    if (take(">=")) return left >= sum();
    if (take("<")) return left < sum();
    if (take(">")) return left > sum();
    return left;
  }

  int64_t sum() {
    int64_t value = product();
    while (true) {
      if (take("+")) {
        if (__builtin_add_overflow(value, product(), &value)) throw Unreadable();
      } else if (take("-")) {
        if (__builtin_sub_overflow(value, product(), &value)) throw Unreadable();
      } else {
        return value;
      }
    }
  }

  int64_t product() {
    int64_t value = factor();
    while (true) {
      if (take("**")) throw Unreadable();
      if (take("//")) {
        value = divided(value, factor()).first;
      } else if (take("%")) {
        value = divided(value, factor()).second;
      } else if (take("*")) {
        if (__builtin_mul_overflow(value, factor(), &value)) throw Unreadable();
      } else {
        return value;
      }
    }
  }

  int64_t factor() {
    constexpr int kDeepest = 200;
    if (++depth_ > kDeepest) throw Unreadable();
    int64_t value = 0;
    if (!take("-")) {
      value = operand();
    } else if (__builtin_sub_overflow(0, factor(), &value)) {
      throw Unreadable();
    }
    --depth_;
    return value;
  }

  int64_t operand() {
    if (take("(")) {
      const int64_t value = any();
      expect(")");
      return value;
    }
    for (const bool is_max : {true, false}) {
      if (!take(is_max ? "max(" : "min(") && !take(is_max ? "Max(" : "Min(")) continue;
      int64_t value = any();
      while (take(",")) value = is_max ? std::max(value, any()) : std::min(value, any());
      expect(")");
      return value;
    }
    if (take("L[")) return size();
    size_t digits = 0;
    while (digits < rest_.size() && std::isdigit(static_cast<unsigned char>(rest_[digits])) != 0) ++digits;
    const std::optional<int64_t> number = parse_number<int64_t>(std::string(rest_.substr(0, digits)));
    if (!number) throw Unreadable();
    rest_.remove_prefix(digits);
    return *number;
  }

  /// Of an input, "'x'].size()[0]" or "'xs'][1].size()[0]"; only the first varies.
  int64_t size() {
    do {
      const size_t end = rest_.find(']');
      const std::string_view place = rest_.substr(0, end);
      const bool is_name = place.size() > 2 && place.front() == '\'' && place.find('\'', 1) == place.size() - 1;
      const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
      if (end == std::string_view::npos || !(is_name || std::all_of(place.begin(), place.end(), is_digit))) throw Unreadable();
      rest_.remove_prefix(end + 1);
    } while (take("["));
    expect(".size()[0]");
    return samples_;
  }

  /// Quotient, rounded down, and remainder.
  static std::pair<int64_t, int64_t> divided(int64_t a, int64_t b) {
    if (b == 0 || b == -1) throw Undefined();
    const int64_t remainder = a % b;
    const bool wraps = remainder != 0 && (remainder < 0) != (b < 0);
    return {a / b - (wraps ? 1 : 0), wraps ? remainder + b : remainder};
  }

  std::string_view rest_;
  int64_t samples_;
  int depth_ = 0;
};

/// Throws Unreadable.
bool holds(const std::string& text, int64_t samples) {
  try {
    return Condition(text, samples).holds();
  } catch (const Undefined&) {
    return false;
  }
}

bool is_broken(const std::string& text, int64_t samples) {
  try {
    return !holds(text, samples);
  } catch (const Unreadable&) {  // too large a number
    return true;
  }
}

}  // namespace

SizeGuards::SizeGuards(std::string path, std::vector<std::string> texts) : path_(std::move(path)), texts_(std::move(texts)) {
  std::erase_if(texts_,
                [](const std::string& text) { return text.find("._base.") != std::string::npos; });  // of the example's memory
  for (const std::string& text : texts_) {
    try {
      holds(text, 2);
    } catch (const Unreadable&) {
      const bool is_of_memory =
          text.find(".stride()") != std::string::npos || text.find(".storage_offset()") != std::string::npos;
      throw InputError(
          fmt::format("{}: it is the exported forward only where {}, which weft cannot read; {}", path_, shortened(text),
                      is_of_memory ? "export it with a contiguous example, and a forward that does not branch on strides"
                                   : "export a forward that does not branch on sizes"));
    }
  }
}

void SizeGuards::check(int64_t samples) const {
  if (known_ == samples) return;
  for (const std::string& text : texts_) {
    if (!is_broken(text, samples)) continue;
    throw InputError(
        fmt::format("{}: with {} samples it is not the exported forward, which is so only where {}; change batch.micro, or "
                    "export a forward "
                    "that does not branch on the number of samples",
                    path_, samples, shortened(text)));
  }
  known_ = samples;
}

}  // namespace weft
