// Rules for which checkpoints of a folder are kept once a newer one is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/recipe/run_length.h"

namespace weft {

/// Facts about a checkpoint.
struct KeptCheckpoint {
  int64_t step = 0;                     ///< the step it was saved after
  RunClock clock = {};                  ///< at that step
  std::optional<double> loss = {};      ///< evaluation after that step; empty without one
  std::optional<double> accuracy = {};  ///< as for loss
};

/// Metric by which the best is kept.
enum class KeepBest { none, loss, accuracy };

/// Rules for keeping; a checkpoint is kept if any rule keeps it.
struct KeepRules {
  int64_t newest = 3;              ///< number of newest ones; 0: all
  RunLength every = {};            ///< the first one after each multiple
  KeepBest best = KeepBest::none;  ///< the one with the smallest loss or highest accuracy; the first of equal ones
};

/// Steps of the checkpoints to remove, from checkpoints sorted by step. The newest is always kept.
std::vector<int64_t> checkpoints_to_remove(const std::vector<KeptCheckpoint>& checkpoints, const KeepRules& rules);

}  // namespace weft
