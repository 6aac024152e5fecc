// SaveRecipe: what a recipe says of checkpoints. Plain data.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// The section [save].
struct SaveRecipe {
  std::string folder;      ///< of checkpoints: a path or a URL; empty: none are saved
  std::string every;       ///< between two: an interval (train/recipe/run_interval.h); empty: at the end and on request alone
  int64_t keep = 3;        ///< newest ones that stay; 0: all
  std::string keep_every;  ///< those stay besides; an interval
  std::string keep_best = "none";  ///< the one with the best "evaluation loss" or "evaluation accuracy" stays besides
  std::string upload;              ///< where each checkpoint is copied to behind training: a path or a URL; empty: nowhere
  bool on_end = true;              ///< after the last step too
  int64_t memory_every = 0;        ///< steps between snapshots in the launcher's memory, for restarts; 0: none
  double deadline_s = 60.0;        ///< what a run has for saving once it was asked to end (SIGTERM, SIGUSR1)
};

}  // namespace weft
