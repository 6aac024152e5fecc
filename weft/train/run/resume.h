// The starting point of a resumed run: the newest complete checkpoint, or the one that was named.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/base/run_board.h"
#include "weft/comm/world.h"
#include "weft/train/save/run_state.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// Where to resume from, and how strictly.
struct ResumeOptions {
  std::string folder = {};    ///< folder of the run's checkpoints; empty: none
  std::string upload = {};    ///< where checkpoints are copied to; used if `folder` has none
  std::string from = "auto";  ///< "auto": the newest in `folder`, if any; "none"; a checkpoint, or a folder of checkpoints
  RunBoard* board = nullptr;  ///< source of snapshots, which may be newer than any checkpoint; null: none
  bool anyway = false;        ///< accept a checkpoint of another model, data, batch, optimizer or seed, as far as it fits
};

/// Resumed::path of a state from the launcher's memory, not from disk.
inline constexpr const char* kSnapshotPath = "the snapshot in memory";

/// Result of resuming.
struct Resumed {
  std::string path;                ///< the checkpoint, or kSnapshotPath
  int64_t step = 0;                ///< steps done
  std::vector<std::string> notes;  ///< on rank 0: skipped checkpoints with reasons; parts left out
};

/// Loads the checkpoint from which the run described by `now` resumes; empty if the run starts over. A damaged checkpoint is
/// skipped for an older one, unless it was named. Collective over the world. Throws InputError if the run may not resume or no
/// complete checkpoint is left, and IoError if one cannot be read: it may still be intact.
std::optional<Resumed> resume(Trainer& trainer, const World& world, const ResumeOptions& options, const RunState& now);

}  // namespace weft
