// evaluate_saved: evaluates saved weights, as `weft evaluate` does.
//
// Nothing is trained: all parameters are frozen, so a rank holds weights, and activations of one micro-batch, but neither
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

/// Input of an evaluation.
struct EvaluateOptions {
  std::string weights = {};                 ///< a checkpoint, a folder of them (the newest), or weights (weights_file.h)
  std::string recipe = {};                  ///< a file; empty: the checkpoint's recipe
  std::vector<std::string> overrides = {};  ///< in load_recipe() form
};

/// Facts known before the ranks start, the same on all of them.
struct EvaluationPlan {
  std::string weights;                  ///< path; for a folder of checkpoints, that of the newest
  std::string recipe_path = {};         ///< empty: the checkpoint's own
  Recipe recipe;                        ///< for these ranks, without the settings that only training uses
  int64_t step = -1;                    ///< steps done when it was saved; below 0: unknown
  bool is_checkpoint = false;           ///< rather than weights alone
  bool has_average = false;             ///< the checkpoint holds an average of the weights
  std::vector<std::string> notes = {};  ///< for the user
};

/// Makes the plan for `ranks` ranks. A checkpoint's recipe keeps its run's mesh; if that does not fit and no override sets one,
/// all ranks are replicas. Throws InputError if weights or recipe cannot be read or do not fit the ranks.
EvaluationPlan plan_evaluation(const EvaluateOptions& options, int ranks);

/// Result of an evaluation.
struct EvaluatedWeights {
  SavedEvaluation evaluation = {};
  SkippedData skipped = {};  ///< data.skip_bad: bad data that was skipped, over all ranks
};

/// Evaluates on every set of the recipe: the average of the weights if the checkpoint has one, the weights, or both, as
/// run.evaluate says. Calls `on_evaluation` on every rank after each. Collective over the world.
EvaluatedWeights evaluate_saved(const EvaluationPlan& plan, const World& world,
                                const std::function<void(const EvaluationReport&)>& on_evaluation = {});

}  // namespace weft
