// Snapshots: copies of a run's state in memory that belongs to its launcher (base/run_board.h), for ranks that are started
// again.
//
// A rank copies what it would write of a checkpoint, by itself: no rank waits for another. A snapshot is whole when the copies
// of all ranks of one step are; the one before stays until then. Cost: what a rank writes is copied and hashed.
#pragma once

#include <cstdint>
#include <optional>

#include "weft/base/run_board.h"
#include "weft/checkpoint/format/index.h"
#include "weft/train/trainer/checkpoint_options.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

/// A snapshot that is whole.
struct Snapshot {
  int number = 0;              ///< of the two copies
  int64_t step = 0;            ///< steps that were done
  CheckpointIndex index = {};  ///< what is in it
};

/// The newest that is whole, if any. The same on all ranks while none takes one.
std::optional<Snapshot> newest_snapshot(RunBoard& board);
/// Makes this rank's copy of that number.
void take_snapshot(TrainerState& trainer, RunBoard& board, int number);
/// Fills this rank's state from the copies of all ranks, as load_state() does (train/trainer/checkpoint_state.h).
LoadReport load_snapshot(TrainerState& trainer, RunBoard& board, const Snapshot& snapshot);

}  // namespace weft
