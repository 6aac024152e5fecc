// Which checkpoints of a folder stay, and which go once a newer one is whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/recipe/run_length.h"

namespace weft {

/// What is known of a checkpoint.
struct KeptCheckpoint {
  int64_t step = 0;                     ///< after which it was saved
  RunClock clock = {};                  ///< then
  std::optional<double> loss = {};      ///< of an evaluation after that step; none without one
  std::optional<double> accuracy = {};  ///< the same
};

/// The best of which number stays.
enum class KeepBest { none, loss, accuracy };

/// Rules for what stays; a checkpoint stays that any of them keeps.
struct KeepRules {
  int64_t newest = 3;              ///< so many; 0: all
  RunLength every = {};            ///< the first one after each multiple
  KeepBest best = KeepBest::none;  ///< the one with the least loss, or the highest accuracy; of equal ones the first
};

/// The steps of those that go, of checkpoints in the order of their steps. The newest always stays.
std::vector<int64_t> checkpoints_to_remove(const std::vector<KeptCheckpoint>& checkpoints, const KeepRules& rules);

}  // namespace weft
