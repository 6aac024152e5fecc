// Removal of older checkpoints of a folder once a newer one is whole, by the rules of keep_rules.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "weft/checkpoint/storage/storage.h"
#include "weft/train/save/keep_rules.h"
#include "weft/train/save/run_state.h"

namespace weft {

/// Those of one folder. The index of each is read once.
class OldCheckpoints {
 public:
  OldCheckpoints(std::string folder, const KeepRules& rules) : folder_(std::move(folder)), rules_(rules) {}

  /// Removes what the rules let go, but `spared`, of those up to `saved`, which was just saved: any after it is not of this
  /// run's past, or was passed over as damaged. One that is damaged is known by its step alone. Throws, having removed none,
  /// where one cannot be read.
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
