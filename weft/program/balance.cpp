#include "weft/program/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/base/units.h"

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The best way to cut the first blocks into stages, for every number of both.
class Cutter {
 public:
  explicit Cutter(const BalanceOptions& options) : options_(options), blocks_(static_cast<int>(options.seconds.size())) {
    sums_.push_back(0.0);
    for (const double seconds : options.seconds) sums_.push_back(sums_.back() + seconds);
  }

  std::vector<int> run() {
    const double longest = cut([](double so_far, double stage) { return std::max(so_far, stage); }, kNever);
    if (longest == kNever) refuse();
    cut([](double so_far, double stage) { return so_far + stage * stage; }, longest);
    std::vector<int> first(options_.stages);
    int end = blocks_;
    for (int stage = options_.stages - 1; stage >= 0; --stage) end = first[stage] = begin_[stage][end];
    return first;
  }

 private:
  double seconds(int begin, int end) const { return sums_[end] - sums_[begin]; }

  // Fills begin_[stage][end], where stage begins if it ends before block `end`, with the least cost.
  template <typename Join>
  double cut(Join join, double longest) {
    std::vector<double> least(blocks_ + 1, kNever);
    least[0] = 0.0;
    begin_.assign(options_.stages, std::vector<int>(blocks_ + 1, -1));
    for (int stage = 0; stage < options_.stages; ++stage) {
      std::vector<double> next(blocks_ + 1, kNever);
      for (int end = 1; end <= blocks_; ++end) {
        int64_t bytes = options_.fixed_bytes.empty() ? 0 : options_.fixed_bytes[stage];
        for (int begin = end - 1; begin >= 0; --begin) {
          if (options_.max_bytes > 0) bytes += options_.bytes(begin, stage);
          if ((options_.max_bytes > 0 && bytes > options_.max_bytes) || seconds(begin, end) > longest) break;
          const double cost = join(least[begin], seconds(begin, end));
          if (cost >= next[end]) continue;
          next[end] = cost;
          begin_[stage][end] = begin;
        }
      }
      least = std::move(next);
    }
    return least[blocks_];
  }

  [[noreturn]] void refuse() const {
    if (blocks_ < options_.stages) {
      throw InputError(fmt::format("layout: {} blocks cannot be cut into {} stages; use fewer", blocks_, options_.stages));
    }
    throw InputError(fmt::format("layout: no cut into {} stages keeps each within {}; use more stages, recompute or shards",
                                 options_.stages, format_bytes(options_.max_bytes)));
  }

  const BalanceOptions& options_;
  int blocks_;
  std::vector<double> sums_;
  std::vector<std::vector<int>> begin_;
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

std::vector<int> balance_stages(const BalanceOptions& options) { return Cutter(options).run(); }

}  // namespace weft
