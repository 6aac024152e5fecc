// Snapshots: copies of a run's state in memory owned by its launcher (base/run_board.h), for restarted ranks.
//
// A rank copies its part of a checkpoint independently: no rank waits for another. A snapshot is complete when all ranks'
// copies are of one step; the previous one stays until then. Cost: the rank's part is copied and hashed.
#pragma once

#include <cstdint>
#include <optional>

#include "weft/base/run_board.h"
#include "weft/checkpoint/format/index.h"
#include "weft/train/trainer/checkpoint_options.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

/// A complete snapshot.
struct Snapshot {
  int number = 0;              ///< which of the two copies
  int64_t step = 0;            ///< steps done
  CheckpointIndex index = {};  ///< its contents
};

/// The newest complete one, if any. The same on all ranks while no rank takes one.
std::optional<Snapshot> newest_snapshot(RunBoard& board);
/// Makes this rank's copy with that number.
void take_snapshot(TrainerState& trainer, RunBoard& board, int number);
/// Fills this rank's state from all ranks' copies, like load_state() (train/trainer/checkpoint_state.h).
LoadReport load_snapshot(TrainerState& trainer, RunBoard& board, const Snapshot& snapshot);

}  // namespace weft
