// Removes older checkpoints of a folder once a newer one is complete, by the rules of keep_rules.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "weft/checkpoint/storage/storage.h"
#include "weft/train/save/keep_rules.h"
#include "weft/train/save/run_state.h"

namespace weft {

/// The checkpoints of one folder. Each index is read once.
class OldCheckpoints {
 public:
  OldCheckpoints(std::string folder, const KeepRules& rules) : folder_(std::move(folder)), rules_(rules) {}

  /// Removes the checkpoints that no rule keeps, up to `saved`, the one just saved, and except `spared`. Later ones do not
  /// belong to this run's past, or were skipped as damaged. Only a damaged one's step is known. Throws before removing any if
  /// one cannot be read.
  void remove(int64_t saved, std::optional<int64_t> spared = std::nullopt);

 private:
  struct Known {
    KeptCheckpoint checkpoint;
    RunState state = {};
  };
  static Known read(Storage& storage, int64_t step);

  std::string folder_;
  KeepRules rules_;
  std::map<int64_t, Known> known_;  ///< by step
};

}  // namespace weft
