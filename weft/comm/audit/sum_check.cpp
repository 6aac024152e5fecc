#include "weft/comm/audit/sum_check.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "weft/base/bits_digest.h"
#include "weft/comm/audit/element.h"

namespace weft {
namespace {

constexpr int64_t kChosen = 8;      ///< elements that are added up in each sum
constexpr int64_t kToExplain = 64;  ///< ranks, at most, whose values are searched for a flipped bit
constexpr int64_t kNone = -1;
constexpr std::string_view kUnharmed = "in the repetition, so training is unharmed";

/// An element of the sum, as all ranks have it.
struct Element {
  int64_t index = 0;
  std::vector<uint64_t> parts;    ///< by rank
  std::vector<uint64_t> results;  ///< of the ranks that have it
  std::vector<uint64_t> again;
  std::vector<int> holders;  ///< these ranks
};

class Check {
 public:
  Check(const MadeTwice& sum, const Group& group, const Axis& axis, CallAudit& audit)
      : sum_(sum), group_(group), axis_(axis), audit_(audit), dtype_(sum.parts.scalar_type()) {}

  void operator()(uint64_t call) {
    const bool is_whole = !sum_.is_scattered;
    const int64_t differs = first_difference(sum_.result, sum_.again);
    std::vector<int64_t> row = {
        differs < 0 ? kNone : sum_.begin + differs,
        is_whole ? std::bit_cast<int64_t>(bits_digest(sum_.result.const_data_ptr(), sum_.result.nbytes())) : 0};
    const bool adds = sum_.op == ReduceOp::sum && rounding_of(dtype_) > 0.0;
    const std::vector<int64_t> chosen = audit_.chosen(sum_.parts.numel(), adds ? kChosen : 0, call);
    for (const int64_t index : chosen) {
      for (const int64_t number : numbers_of(index)) row.push_back(number);
    }
    const at::Tensor rows = gather_rows(group_, row, "audit of sums");
    const auto of = [&](int rank) { return rows.const_data_ptr<int64_t>() + int64_t{rank} * rows.size(1); };
    int64_t first = kNone;
    bool is_same = true;
    for (int rank = 0; rank < group_.size(); ++rank) {
      if (of(rank)[0] != kNone && (first == kNone || of(rank)[0] < first)) first = of(rank)[0];
      is_same &= of(rank)[1] == of(0)[1];
    }
    if (first == kNone && !is_same) first = first_unequal();
    if (first != kNone) return report(gathered(first));
    for (size_t i = 0; i < chosen.size(); ++i) {
      Element element{.index = chosen[i], .parts = {}, .results = {}, .again = {}, .holders = {}};
      for (int rank = 0; rank < group_.size(); ++rank) take(element, rank, of(rank) + 2 + 4 * i);
      if (is_off(element)) report_off(element);
    }
  }

 private:
  /// This rank's part of an element, whether it has the result, and both results.
  std::vector<int64_t> numbers_of(int64_t index) const {
    const int64_t own = index - sum_.begin;
    const bool has = own >= 0 && own < sum_.result.numel();
    const auto bits = [&](const at::Tensor& from, int64_t at) { return std::bit_cast<int64_t>(element_bits(from, at)); };
    return {bits(sum_.parts, index), has ? 1 : 0, has ? bits(sum_.result, own) : 0, has ? bits(sum_.again, own) : 0};
  }

  static void take(Element& element, int rank, const int64_t* numbers) {
    element.parts.push_back(std::bit_cast<uint64_t>(numbers[0]));
    if (numbers[1] == 0) return;
    element.holders.push_back(rank);
    element.results.push_back(std::bit_cast<uint64_t>(numbers[2]));
    element.again.push_back(std::bit_cast<uint64_t>(numbers[3]));
  }

  Element gathered(int64_t index) const {
    const at::Tensor rows = gather_rows(group_, numbers_of(index), "audit of an element");
    Element element{.index = index, .parts = {}, .results = {}, .again = {}, .holders = {}};
    for (int rank = 0; rank < group_.size(); ++rank) take(element, rank, rows.const_data_ptr<int64_t>() + int64_t{rank} * 4);
    return element;
  }

  /// The first element that differs between any rank and the first one.
  int64_t first_unequal() const {
    const at::Tensor first = sum_.result.clone();
    group_.broadcast(first, 0, "audit of a sum").wait();
    const at::Tensor rows = gather_rows(group_, {first_difference(sum_.result, first)}, "audit of a sum");
    int64_t least = kNone;
    for (int rank = 0; rank < group_.size(); ++rank) {
      const int64_t index = rows.const_data_ptr<int64_t>()[rank];
      if (index != kNone && (least == kNone || index < least)) least = index;
    }
    return std::max<int64_t>(least, 0);
  }

  bool is_off(const Element& element) const {
    double sum = 0.0, sizes = 0.0;
    for (const uint64_t bits : element.parts) {
      sum += element_value(bits, dtype_);
      sizes += std::fabs(element_value(bits, dtype_));
    }
    // Between hosts, sums may travel as bfloat16.
    const double unit = group_.backend() == "shm+gloo" ? rounding_of(at::kBFloat16) : rounding_of(dtype_);
    const double most = unit * static_cast<double>(element.parts.size()) * sizes + 1e-6 * unit;
    if (!std::isfinite(most) || element.results.empty()) return false;
    const double result = element_value(element.results.front(), dtype_);
    const bool may_overflow = dtype_ == at::kHalf && sizes > 65504.0;
    return !may_overflow && !(std::fabs(result - sum) <= most);
  }

  int world(int rank) const { return axis_.ranks[rank]; }
  std::string text(uint64_t bits) const { return element_text(bits, dtype_); }
  std::string where(const Element& element) const {
    return fmt::format("\"{}\" on group \"{}\" ({}), element {} of {}", sum_.what, axis_.name, group_.backend(), element.index,
                       sum_.parts.numel());
  }
  void add(const Element& element, const std::string& text, std::vector<int> ranks) {
    const auto* at = static_cast<const char*>(sum_.place) + element.index * static_cast<int64_t>(sum_.parts.element_size());
    const bool is_harmless = text.ends_with(kUnharmed);
    audit_.add({fmt::format("{}: {}", where(element), text), std::move(ranks), at, is_harmless});
  }
  std::vector<int> all_ranks() const { return axis_.ranks; }

  void report(const Element& element) {
    const uint64_t right = most_frequent(element.again);
    std::vector<int> wrong, wrong_again;
    for (size_t i = 0; i < element.holders.size(); ++i) {
      if (element.results[i] != right) wrong.push_back(static_cast<int>(i));
      if (element.again[i] != right) wrong_again.push_back(static_cast<int>(i));
    }
    const bool was_delivered_wrong = !wrong.empty() && wrong.size() < element.holders.size();
    if (was_delivered_wrong) return report_delivered(element, element.results, wrong, right, "");
    if (!wrong_again.empty() && wrong.empty()) {
      return report_delivered(element, element.again, wrong_again, right, fmt::format("; {}", kUnharmed));
    }
    report_sum(element);
  }

  static uint64_t most_frequent(const std::vector<uint64_t>& values) {
    const auto times = [&](uint64_t value) { return std::count(values.begin(), values.end(), value); };
    return *std::max_element(values.begin(), values.end(), [&](uint64_t a, uint64_t b) { return times(a) < times(b); });
  }

  void report_delivered(const Element& element, const std::vector<uint64_t>& results, const std::vector<int>& wrong,
                        uint64_t right, const std::string& more) {
    std::vector<int> ranks;
    std::vector<std::string> texts;
    for (const int i : wrong) {
      ranks.push_back(world(element.holders[i]));
      texts.push_back(fmt::format("rank {} got {}", ranks.back(), text(results[i])));
    }
    add(element, fmt::format("{} instead of {}{}", fmt::join(texts, ", "), text(right), more), ranks);
  }

  /// All ranks have the same result, and another one when the sum is repeated.
  void report_sum(const Element& element) {
    const uint64_t first = element.results.front(), second = element.again.front();
    const bool is_known = group_.size() <= kToExplain && sum_.op == ReduceOp::sum;
    const bool is_first_right = is_known && adds_up(element.parts, first, dtype_);
    const bool is_second_right = is_known && adds_up(element.parts, second, dtype_);
    if (is_first_right == is_second_right) {
      return add(element,
                 fmt::format("the sum is {}, and {} when it is repeated; {}", text(first), text(second), parts_text(element)),
                 all_ranks());
    }
    const uint64_t right = is_first_right ? first : second, wrong = is_first_right ? second : first;
    const char* more = is_first_right ? "; in the repetition, so training is unharmed" : "";
    const std::vector<FlippedBit> bits = explain(element.parts, right, wrong, dtype_);
    const bool is_one_bit = std::popcount(right ^ wrong) == 1;  // of the sum itself, too
    if (bits.empty() && is_one_bit && element.holders.size() == 1) {
      return report_delivered(element, {wrong}, {0}, right, more);
    }
    if (bits.empty()) {
      return add(element, fmt::format("the sum is {} instead of {}; {}{}", text(wrong), text(right), parts_text(element), more),
                 all_ranks());
    }
    std::vector<int> ranks;
    std::vector<std::string> texts;
    for (const FlippedBit& bit : bits) {
      if (std::find(ranks.begin(), ranks.end(), world(bit.rank)) != ranks.end()) continue;
      ranks.push_back(world(bit.rank));
      texts.push_back(fmt::format("{} of rank {} was added as {} (bit {})", text(element.parts[bit.rank]), ranks.back(),
                                  text(bit.arrived), bit.bit));
    }
    if (is_one_bit && element.holders.size() == 1 &&
        std::find(ranks.begin(), ranks.end(), world(element.holders.front())) == ranks.end()) {
      ranks.push_back(world(element.holders.front()));
      texts.push_back(fmt::format("the sum changed on rank {}", ranks.back()));
    }
    add(element, fmt::format("the sum is {} instead of {}: {}{}", text(wrong), text(right), fmt::join(texts, ", or "), more),
        ranks);
  }

  /// Both sums agree, but not with what is added up here.
  void report_off(const Element& element) {
    add(element, fmt::format("the sum is {} each time; {}", text(element.results.front()), parts_text(element)), all_ranks());
  }

  std::string parts_text(const Element& element) const {
    double sum = 0.0;
    std::vector<std::string> texts;
    for (const uint64_t bits : element.parts) {
      sum += element_value(bits, dtype_);
      if (texts.size() < 8) texts.push_back(text(bits));
    }
    return fmt::format("the ranks have {}{}, whose sum is {:.9g}", fmt::join(texts, ", "),
                       element.parts.size() > 8 ? ", ..." : "", sum);
  }

  const MadeTwice& sum_;
  const Group& group_;
  const Axis& axis_;
  CallAudit& audit_;
  at::ScalarType dtype_;
};

}  // namespace

at::Tensor gather_rows(const Group& group, const std::vector<int64_t>& row, std::string_view what) {
  const auto numbers = static_cast<int64_t>(row.size());
  const at::Tensor rows = at::empty({group.size(), numbers}, at::kLong), own = at::empty({numbers}, at::kLong);
  std::copy(row.begin(), row.end(), own.mutable_data_ptr<int64_t>());
  group.all_gather(rows, own, what).wait();
  return rows;
}

void check_sum(const MadeTwice& sum, const Group& group, const Axis& axis, uint64_t call, CallAudit& audit) {
  Check(sum, group, axis, audit)(call);
}

}  // namespace weft
