// SaveRecipe: what a recipe says of checkpoints. Plain data.
#pragma once

#include <cstdint>
#include <string>

#include "weft/recipe/run_length.h"

namespace weft {

/// The section [save].
struct SaveRecipe {
  std::string folder;              ///< of checkpoints: a path or a URL; empty: none are saved
  RunLength every;                 ///< between two; none: at the end and on request alone
  int64_t keep = 3;                ///< newest ones that stay; 0: all
  RunLength keep_every;            ///< those stay besides
  std::string keep_best = "none";  ///< the one with the best "evaluation loss" or "evaluation accuracy" stays besides
  std::string upload;              ///< where each checkpoint is copied to behind training: a path or a URL; empty: nowhere
  bool on_end = true;              ///< after the last step too
  RunLength memory_every;          ///< between snapshots in the launcher's memory, for restarts; none: none
  double deadline_s = 60.0;        ///< what a run has for saving once it was asked to end (SIGTERM, SIGUSR1)

  /// Numbers by which ranks agree, with each step's losses, whether to save and whether to end (Program::votes).
  int votes() const { return folder.empty() ? 0 : 2; }
};

}  // namespace weft
