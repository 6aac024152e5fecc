// Runs many trainings of a recipe, one after another or side by side, each as a separate `weft train`, for studies.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

/// One training.
struct RecipeRun {
  std::string recipe;                  ///< path
  std::vector<std::string> overrides;  ///< "section.key=value"
  int ranks = 1;                       ///< on this machine
  int threads = 1;                     ///< per rank, unless the recipe sets them
  std::string summary, log;            ///< file for --summary, and file for its output
};

/// How one training ended.
struct RecipeRunEnd {
  bool diverged = false;   ///< the loss was not finite
  std::string error = {};  ///< why it failed; empty: it succeeded
};

/// Threads per rank when this many ranks train at once: OMP_NUM_THREADS if set, otherwise their share of the cores.
int run_threads(int concurrent_ranks);

/// "; 4 ranks share 2 cores, ..." if there are more ranks than cores; otherwise empty.
std::string crowding_text(int concurrent_ranks);

/// Creates the results folder if missing, and locks it while the result lives. Throws InputError if another study or `weft
/// scale` is using it, or it cannot be created.
FileDescriptor hold_results_folder(const std::string& folder);

/// Trains them, `side_by_side` at once. `on_end` receives the index of each finished run and how it ended. Returns 0, or the
/// signal that stopped the remaining runs; runs that save then have `save_s` seconds to do so.
int run_recipes(const std::vector<RecipeRun>& runs, int side_by_side, double save_s,
                const std::function<void(size_t run, const RecipeRunEnd& end)>& on_end);

}  // namespace weft
