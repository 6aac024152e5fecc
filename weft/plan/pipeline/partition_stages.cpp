#include "weft/plan/pipeline/partition_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/program/build/balance.h"
#include "weft/program/build/stages.h"
#include "weft/program/build/step_layout.h"
#include "weft/recipe/stages_by_hand.h"

namespace weft {

namespace {

Found<std::vector<int>> cut_by_hand(const std::string& text, int blocks, int stages) {
  const std::vector<int64_t> counts = stages_by_hand(text);
  if (static_cast<int>(counts.size()) != stages) {
    return {.value = {},
            .why_not = fmt::format("layout.stages = \"{}\" makes {} stages, but the schedule has {}", shortened(text),
                                   counts.size(), stages)};
  }
  check_stages_by_hand(text, blocks);
  std::vector<int> first;
  int next = 0;
  for (const int64_t count : counts) {
    first.push_back(next);
    next += static_cast<int>(count);
  }
  return {.value = first};
}

class Fitter {
 public:
  explicit Fitter(const FitOptions& options) : options_(options) {}

  std::optional<std::vector<int>> run(const std::vector<int>& first_block) {
    best_ = first_block;
    bytes_ = descending(options_.rank_bytes(first_block));
    while (!fits(bytes_) && move([&](const auto& /*cut*/, const auto& bytes) { return bytes < bytes_; })) {
    }
    if (!fits(bytes_)) return {};
    while (move([&](const auto& cut, const auto& bytes) { return fits(bytes) && rank_seconds(cut) < rank_seconds(best_); })) {
    }
    return best_;
  }

 private:
  template <typename T>
  static std::vector<T> descending(std::vector<T> values) {
    std::sort(values.begin(), values.end(), std::greater<>());
    return values;
  }

  bool fits(const std::vector<int64_t>& bytes) const { return bytes.front() <= options_.max_bytes; }

  std::vector<double> rank_seconds(const std::vector<int>& first_block) const {
    std::vector<double> result(options_.rank_of_stage.size(), 0.0);
    const std::vector<StageBlocks> stages = stages_of(first_block, static_cast<int>(options_.seconds.size()));
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      double& rank = result[static_cast<size_t>(options_.rank_of_stage[stage])];
      for (int block = stages[stage].first; block < stages[stage].last; ++block) rank += options_.seconds[block];
    }
    return descending(std::move(result));
  }

  /// Moves to the first better cut that moves one block between two stages.
  template <typename IsBetter>
  bool move(IsBetter is_better) {
    const std::vector<StageBlocks> blocks = stages_of(best_, static_cast<int>(options_.seconds.size()));
    const int stages = static_cast<int>(blocks.size());
    for (int from = 0; from < stages; ++from) {
      for (int to = 0; to < stages && blocks[from].last - blocks[from].first > 1; ++to) {
        if (to == from || tries_ == options_.most_tries) continue;
        std::vector<int> cut = best_;
        for (int stage = from + 1; stage <= to; ++stage) --cut[stage];
        for (int stage = to + 1; stage <= from; ++stage) ++cut[stage];
        ++tries_;
        std::vector<int64_t> bytes = descending(options_.rank_bytes(cut));
        if (!is_better(cut, bytes)) continue;
        best_ = std::move(cut);
        bytes_ = std::move(bytes);
        return true;
      }
    }
    return false;
  }

  const FitOptions& options_;
  std::vector<int> best_;
  std::vector<int64_t> bytes_;  ///< of best_
  int tries_ = 0;
};

}  // namespace

Found<std::vector<int>> choose_cut(const CutOptions& options) {
  const int blocks = static_cast<int>(options.seconds.size());
  if (options.choice == "even" && blocks >= options.stages) return {.value = even_stages(blocks, options.stages)};
  if (options.choice != "auto" && options.choice != "even") return cut_by_hand(options.choice, blocks, options.stages);
  return balance_stages({.stages = options.stages, .seconds = options.seconds});
}

std::optional<std::vector<int>> fit_cut(const FitOptions& options, const std::vector<int>& first_block) {
  return Fitter(options).run(first_block);
}

}  // namespace weft
