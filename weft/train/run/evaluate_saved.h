// evaluate_saved: the evaluation of weights that were saved, as `weft evaluate` does it.
//
// Nothing is trained: all parameters are frozen, so that a rank holds weights, and activations of one micro-batch, but neither
// gradients nor optimizer state.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/recipe/recipe.h"
#include "weft/report/report.h"
#include "weft/report/skipped_data.h"

namespace weft {

/// What is evaluated, and by what.
struct EvaluateOptions {
  std::string weights = {};                 ///< a checkpoint, a folder of some (the newest), or weights (weights_file.h)
  std::string recipe = {};                  ///< a file; empty: the recipe that the checkpoint holds
  std::vector<std::string> overrides = {};  ///< as load_recipe() takes them
};

/// What is known before the ranks start, the same on all of them.
struct EvaluationPlan {
  std::string weights;                  ///< of a folder of checkpoints the newest one's path
  std::string recipe_path = {};         ///< empty: the checkpoint's own
  Recipe recipe;                        ///< for so many ranks: what only a training asks for is left out
  int64_t step = -1;                    ///< steps done when it was saved; below 0: nobody knows
  bool is_checkpoint = false;           ///< and not weights alone
  bool has_average = false;             ///< it holds one
  std::vector<std::string> notes = {};  ///< for people
};

/// The plan for `ranks` ranks. The checkpoint's recipe has the mesh of its run, or where that is not one of so many ranks, and
/// no override says otherwise, replicas. Throws InputError where the weights or the recipe cannot be read, or do not fit the
/// ranks.
EvaluationPlan plan_evaluation(const EvaluateOptions& options, int ranks);

/// What came of it.
struct EvaluatedWeights {
  SavedEvaluation evaluation = {};
  SkippedData skipped = {};  ///< data.skip_bad: what was bad of the recipe's data, of all ranks
};

/// Evaluates on every set of the recipe, the average of the weights where the checkpoint has one, the weights, or both, as
/// run.evaluate says. Calls `on_evaluation` on every rank after each. Collective over the world.
EvaluatedWeights evaluate_saved(const EvaluationPlan& plan, const World& world,
                                const std::function<void(const EvaluationReport&)>& on_evaluation = {});

}  // namespace weft
