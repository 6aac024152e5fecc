// Many trainings of a recipe, one after another or side by side, each a `weft train` of its own: what studies are made of.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

/// A training.
struct RecipeRun {
  std::string recipe;                  ///< its path
  std::vector<std::string> overrides;  ///< "section.key=value"
  int ranks = 1;                       ///< on this machine
  int threads = 1;                     ///< of a rank, but where the recipe says other
  std::string summary, log;            ///< files: what --summary writes, and what it prints
};

/// How a training ended.
struct RecipeRunEnd {
  bool diverged = false;   ///< as its loss was no number any more
  std::string error = {};  ///< why it failed; empty: it did not
};

/// Threads of a rank where so many train at a time: OMP_NUM_THREADS where it is set, else their share of the cores.
int run_threads(int ranks_at_a_time);

/// "; 4 ranks share 2 cores: ..." where there are more ranks than cores, else nothing.
std::string crowding_text(int ranks_at_a_time);

/// The folder for the results, made where it is not there and held while what this returns lives. Throws InputError where
/// another study or `weft scale` is at work in it, or it cannot be made.
FileDescriptor hold_results_folder(const std::string& folder);

/// Trains them, `side_by_side` at a time. `on_end` is told the number of each that came to its end, and how it ended. Returns
/// 0, or the signal that ended those that were left.
/// A run that saves has `save_s` for it then.
int run_recipes(const std::vector<RecipeRun>& runs, int side_by_side, double save_s,
                const std::function<void(size_t run, const RecipeRunEnd& end)>& on_end);

}  // namespace weft
