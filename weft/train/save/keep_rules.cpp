#include "weft/train/save/keep_rules.h"

#include <cmath>

namespace weft {
namespace {

std::optional<double> number_of(const KeptCheckpoint& checkpoint, KeepBest best) {
  if (best == KeepBest::none) return std::nullopt;
  const std::optional<double> number = best == KeepBest::accuracy ? checkpoint.accuracy : checkpoint.loss;
  if (!number || std::isnan(*number)) return std::nullopt;
  return best == KeepBest::accuracy ? *number : -*number;
}

/// Index of the best; -1 if none has the metric.
int best_of(const std::vector<KeptCheckpoint>& checkpoints, KeepBest best) {
  int found = -1;
  for (int i = 0; i < static_cast<int>(checkpoints.size()); ++i) {
    const auto number = number_of(checkpoints[i], best);
    if (number && (found < 0 || *number > *number_of(checkpoints[found], best))) found = i;
  }
  return found;
}

}  // namespace

std::vector<int64_t> checkpoints_to_remove(const std::vector<KeptCheckpoint>& checkpoints, const KeepRules& rules) {
  std::vector<int64_t> removed;
  if (rules.newest == 0) return removed;
  const int count = static_cast<int>(checkpoints.size()), best = best_of(checkpoints, rules.best);
  RunClock before;
  for (int i = 0; i < count; ++i) {
    const bool is_new = i >= count - rules.newest;
    const bool is_due = rules.every.passed(before, checkpoints[i].clock);
    before = checkpoints[i].clock;
    if (!is_new && !is_due && i != best) removed.push_back(checkpoints[i].step);
  }
  return removed;
}

}  // namespace weft
