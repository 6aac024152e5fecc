// Recipes: reading and costing them, checking what they may combine, and training as `weft train` does.
#pragma once

#include "weft/plan/forecast.h"
#include "weft/plan/layout/composition.h"
#include "weft/plan/make_plan.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/open_data.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/train/compare/compare_recipe.h"
#include "weft/train/measure/profile_blocks.h"
#include "weft/train/run/check_data.h"
#include "weft/train/run/train.h"
