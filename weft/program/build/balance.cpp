#include "weft/program/build/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/units.h"

namespace weft {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();
constexpr double kSurelyMore = 1.0 - 1e-9;

// The best cuts of the first n blocks into k stages, for all n and k. A stage end is tried only if it leaves at least one block
// for every stage before and after it.
class Cutter {
 public:
  explicit Cutter(const BalanceOptions& options)
      : options_(options),
        blocks_(static_cast<int>(options.seconds.size())),
        stages_(options.stages),
        ends_(std::max(blocks_ - stages_ + 1, 0)) {
    sums_.push_back(0.0);
    for (const double seconds : options.seconds) sums_.push_back(sums_.back() + seconds);
  }

  Found<std::vector<int>> run() {
    if (options_.max_bytes > 0) find_fitting();
    const double longest = least_longest();
    if (longest == kImpossible) return {.value = {}, .why_not = why_not()};
    return {.value = evenest(longest)};
  }

 private:
  double seconds(int begin, int end) const { return sums_[end] - sums_[begin]; }
  int first_end(int stage) const { return stage + 1; }
  int last_end(int stage) const { return blocks_ - stages_ + 1 + stage; }
  size_t cell(int stage, int end) const { return static_cast<size_t>(stage) * ends_ + (end - first_end(stage)); }
  int first_fitting(int stage, int end) const { return fitting_.empty() ? stage : std::max(stage, fitting_[cell(stage, end)]); }

  // Finds the first block such that the blocks up to `end` fit the stage's bytes; `end` if there is none.
  void find_fitting() {
    fitting_.resize(static_cast<size_t>(stages_) * ends_);
    for (int stage = 0; stage < stages_; ++stage) {
      int64_t bytes = options_.fixed_bytes.empty() ? 0 : options_.fixed_bytes[stage];
      for (int begin = stage, end = stage; end < last_end(stage);) {
        bytes += options_.bytes(end++, stage);
        while (begin < end && bytes > options_.max_bytes) bytes -= options_.bytes(begin++, stage);
        fitting_[cell(stage, end)] = begin;
      }
    }
  }

  // Longest stage of the best cut, found bit by bit: larger limits allow a cut, smaller ones do not.
  double least_longest() const {
    if (ends_ == 0 || !can_keep(sums_.back())) return kImpossible;
    auto too_short = std::bit_cast<int64_t>(0.0) - 1, enough = std::bit_cast<int64_t>(sums_.back());
    while (enough - too_short > 1) {
      const int64_t middle = too_short + (enough - too_short) / 2;
      (can_keep(std::bit_cast<double>(middle)) ? enough : too_short) = middle;
    }
    return std::bit_cast<double>(enough);
  }

  // Without a byte limit: true if few enough stages of up to this length hold all blocks.
  bool can_keep_time(double longest) const {
    int stages = 1, begin = 0;
    for (int end = 1; end <= blocks_; ++end) {
      if (seconds(begin, end) <= longest) continue;
      ++stages;
      begin = end - 1;
      if (seconds(begin, end) > longest) return false;
    }
    return stages <= stages_;
  }

  // True if some cut has no stage longer than `longest`.
  bool can_keep(double longest) const {
    if (fitting_.empty()) return can_keep_time(longest);
    std::vector<bool> can_end(blocks_ + 1, false);  // previous stage
    can_end[0] = true;
    for (int stage = 0; stage < stages_; ++stage) {
      std::vector<bool> next(blocks_ + 1, false);
      int begin = stage, latest = -1;  // last place before `end` where the previous stage can end
      bool any = false;
      for (int end = first_end(stage); end <= last_end(stage); ++end) {
        if (can_end[end - 1]) latest = end - 1;
        while (seconds(begin, end) > longest) ++begin;
        next[end] = latest >= std::max(begin, first_fitting(stage, end));
        any = any || next[end];
      }
      if (!any) return false;
      can_end = std::move(next);
    }
    return can_end[blocks_];
  }

  // Returns the cut within `longest` with the least sum of squares; among equal ones, the one with shorter later stages. As a
  // stage's end moves on, its best beginning never moves back: squares of lengths satisfy the quadrangle inequality (Yao 1980),
  // and the byte and length limits only exclude early beginnings, more of them for later ends.
  std::vector<int> evenest(double longest) const {
    std::vector<int> begins(static_cast<size_t>(stages_) * ends_, -1);
    std::vector<double> least(blocks_ + 1, kImpossible);
    least[0] = 0.0;
    for (int stage = 0; stage < stages_; ++stage) {
      std::vector<double> next(blocks_ + 1, kImpossible);
      for (int end = first_end(stage), earliest = 0; end <= last_end(stage); ++end) {
        const int from = std::max(earliest, first_fitting(stage, end));
        for (int begin = stage == 0 ? 0 : end - 1; begin >= from; --begin) {
          const double length = seconds(begin, end);
          if (length > longest || cannot_gain(stage, begin, length, next[end])) break;
          const double cost = least[begin] + length * length;
          if (cost >= next[end]) continue;
          next[end] = cost;
          begins[cell(stage, end)] = begin;
        }
        earliest = std::max(earliest, begins[cell(stage, end)]);
      }
      least = std::move(next);
    }
    std::vector<int> first(stages_);
    int end = blocks_;
    for (int stage = stages_ - 1; stage >= 0; --stage) end = first[stage] = begins[cell(stage, end)];
    return first;
  }

  // True if no stage longer than [begin, end) can cost less than `cost`, even if the stages before it were all equal.
  bool cannot_gain(int stage, int begin, double length, double cost) const {
    if (stage == 0 || length * stage < sums_[begin]) return false;  // a longer stage may be nearer to equal
    return (sums_[begin] * sums_[begin] / stage + length * length) * kSurelyMore > cost;
  }

  std::string why_not() const {
    if (blocks_ < stages_) return fmt::format("layout: {} blocks cannot be cut into {} stages; use fewer", blocks_, stages_);
    return fmt::format("layout: no cut into {} stages keeps each within {}; use more stages, recompute or shards", stages_,
                       format_bytes(options_.max_bytes));
  }

  const BalanceOptions& options_;
  int blocks_, stages_, ends_;  // ends: possible ends per stage
  std::vector<double> sums_;
  std::vector<int> fitting_;  // [stage][end]
};

}  // namespace

std::vector<double> block_operations(const ModelCost& model) {
  std::vector<double> result;
  double total = 0.0;
  for (const BlockCost& block : model.blocks) {
    result.push_back(block.forward_flops + block.backward_flops);
    total += result.back();
  }
  if (total == 0.0) result.assign(model.blocks.size(), 1.0);
  return result;
}

Found<std::vector<int>> balance_stages(const BalanceOptions& options) { return Cutter(options).run(); }

}  // namespace weft
