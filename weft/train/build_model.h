// From a recipe to its model, and to what that model costs: the one place that knows the models' names.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/nn/model.h"
#include "weft/program/program.h"
#include "weft/train/layout.h"
#include "weft/train/recipe.h"

namespace weft {

/// Its parameters are on the meta device: nothing is allocated until a FlatModel binds them.
Model build_model(const ModelRecipe& recipe);

/// Of weights and activations.
at::ScalarType dtype_of(Precision precision);

/// Tokens a sample, 0 for models that read images.
int64_t tokens_per_sample(const ModelRecipe& recipe);

/// Of an image that the model reads; empty for models that read tokens.
std::vector<int64_t> sample_shape(const ModelRecipe& recipe);

/// Throws InputError where model_cost() could not count with 64 bits; whether a step can is build_program()'s to tell.
void check_countable(const Recipe& recipe, int64_t micro_batch);

/// The model's costs for one micro-batch of `micro_batch` samples. Needs no data and allocates no weights.
ModelCost model_cost(const Recipe& recipe, int64_t micro_batch, const LayoutOptions& layout = {}, bool reproducible = false);

}  // namespace weft
