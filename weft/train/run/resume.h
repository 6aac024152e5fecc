// Where a run goes on from: the newest checkpoint that is whole, or the one that was named.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/base/run_board.h"
#include "weft/comm/world.h"
#include "weft/train/save/run_state.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// Where from, and how strictly.
struct ResumeOptions {
  std::string folder = {};    ///< of the run's checkpoints; empty: none
  std::string upload = {};    ///< where they are copied to; what is there counts where `folder` has none
  std::string from = "auto";  ///< "auto": the newest in `folder`, if any; "none"; a checkpoint, or a folder of some
  RunBoard* board = nullptr;  ///< where a snapshot may be newer than any checkpoint; null: none
  bool anyway = false;        ///< a run of another model, data, batch, optimizer or seed will do, as far as it fits
};

/// Resumed::path of what was in the launcher's memory, on no disk.
inline constexpr const char* kSnapshotPath = "the snapshot in memory";

/// What came of it.
struct Resumed {
  std::string path;                ///< the checkpoint, or kSnapshotPath
  int64_t step = 0;                ///< steps that were done
  std::vector<std::string> notes;  ///< on rank 0: checkpoints that were passed over, and why; what was skipped
};

/// Loads the checkpoint that the run, as `now` describes it, goes on from; none where it begins anew. One that is damaged is
/// passed over for an older one, unless it is the one that was named. Collective over the world. Throws InputError where it may
/// not go on, or none of the checkpoints that are there is whole, and IoError where one cannot be read, as it may be whole.
std::optional<Resumed> resume(Trainer& trainer, const World& world, const ResumeOptions& options, const RunState& now);

}  // namespace weft
