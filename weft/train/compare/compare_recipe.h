// compare_recipe: compare_layouts() for a recipe, as `weft verify` does it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "weft/comm/world.h"
#include "weft/recipe/recipe.h"
#include "weft/train/compare/layout_comparison.h"

namespace weft {

/// Options of a comparison.
struct CompareRecipeOptions {
  int64_t steps = 3;                                        ///< steps per run; run.steps still sets the learning rate
  bool exact = false;                                       ///< LayoutsToCompare::exact
  std::function<void(const std::string& run)> on_run = {};  ///< called on rank 0 before each run
};

/// Trains the recipe's first steps in its layout on this world, with the program that train() runs, and on one device with the
/// same micro-batches, and compares them (compare_layouts.h). Collective over the world. Sets the thread count of this process
/// as the recipe says. Throws the errors of train() and compare_layouts().
LayoutComparison compare_recipe(const Recipe& recipe, const World& world, const CompareRecipeOptions& options = {});

}  // namespace weft
