#include "weft/train/compare/compare_recipe.h"

#include <ATen/Parallel.h>

#include "weft/data/loader.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/build/open_data.h"
#include "weft/train/compare/compare_layouts.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/train/run/recipe_agreement.h"
#include "weft/train/run/shared_plan.h"

namespace weft {

LayoutComparison compare_recipe(const Recipe& whole, const World& world, const CompareRecipeOptions& options) {
  Recipe recipe = whole;
  recipe.batch.ramp.clear();  // all phases take the same kind of step: compares the last, largest one
  at::set_num_threads(threads_of(recipe, world));
  const Plan plan = shared_plan(recipe, world);
  const ResolvedLayout& layout = plan.layout;
  const Datasets data = open_data(recipe);
  LayoutsToCompare compared{
      .layout = {.axes = mesh_axes(layout), .options = trainer_options(recipe, layout, device_of(recipe, world))},
      .trained = {.model = [&recipe] { return build_model(recipe.model); },
                  .optimizer = optimizer_of(recipe.optimizer),
                  .batches = dataset_batches(data.training, sampler_of(*data.training, recipe.run.seed)),
                  .steps = options.steps},
      .exact = options.exact,
      .on_run = options.on_run};
  TrainerOptions& trainer = compared.layout.options;
  trainer.program = plan.program;
  trainer.program_is_verified = true;
  trainer.learning_rate = learning_rate_of(recipe, run_lengths(recipe, data.training->size()));
  trainer.rate_phases = rate_phases_of(recipe);
  trainer.agreement = recipe_agreement(recipe, data);
  return compare_layouts(world, compared);
}

}  // namespace weft
