// SaveRecipe: the checkpoint settings of a recipe. Plain data.
#pragma once

#include <cstdint>
#include <string>

#include "weft/recipe/run_length.h"

namespace weft {

/// The section [save].
struct SaveRecipe {
  std::string folder;              ///< checkpoint folder: a path or a URL; empty: no checkpoints
  RunLength every;                 ///< interval between checkpoints; unset: only at the end and on request
  int64_t keep = 3;                ///< number of newest checkpoints kept; 0: all
  RunLength keep_every;            ///< checkpoints at these intervals are kept too
  std::string keep_best = "none";  ///< "evaluation loss" or "evaluation accuracy": the best checkpoint by it is kept too
  std::string upload;              ///< path or URL that each checkpoint is copied to in the background; empty: no copy
  bool on_end = true;              ///< save after the last step too
  RunLength memory_every;          ///< interval between snapshots in the launcher's memory, for restarts; unset: no snapshots
  double deadline_s = 60.0;        ///< time to save after a request to end (SIGTERM, SIGUSR1)

  /// Votes that ranks exchange with each step's losses: whether to save and whether to end (Program::votes).
  int votes() const { return folder.empty() ? 0 : 2; }
};

}  // namespace weft
