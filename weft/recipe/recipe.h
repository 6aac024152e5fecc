// Recipe: the TOML file that names model, data, batch, layout, optimizer and run, as `weft train` reads it. Plain data.
#pragma once

#include <string>
#include <vector>

#include "weft/recipe/batch_recipe.h"
#include "weft/recipe/data_recipe.h"
#include "weft/recipe/evaluation_recipe.h"
#include "weft/recipe/layout_recipe.h"
#include "weft/recipe/model_recipe.h"
#include "weft/recipe/optimizer_recipe.h"
#include "weft/recipe/run_recipe.h"
#include "weft/recipe/save_recipe.h"

namespace weft {

/// A whole run.
struct Recipe {
  std::string path;                                ///< path of the file, for errors
  ModelRecipe model;                               ///< what is trained
  DataRecipe data;                                 ///< the training data
  BatchRecipe batch;                               ///< samples per step
  LayoutRecipe layout;                             ///< how it is divided over ranks and memory
  OptimizerRecipe optimizer;                       ///< how weights are updated
  RunRecipe run;                                   ///< how long
  SaveRecipe save;                                 ///< where checkpoints go, and how often
  std::vector<EvaluationRecipe> evaluations = {};  ///< further sets to evaluate on
};

}  // namespace weft
