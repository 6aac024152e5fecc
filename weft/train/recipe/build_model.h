// From a recipe to its model: the one place that knows the models' names.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "weft/nn/model.h"
#include "weft/train/recipe/recipe.h"

namespace weft {

/// The recipe's model. Its parameters are on the meta device: nothing is allocated until a FlatModel binds them.
Model build_model(const ModelRecipe& recipe);

/// What model.name may be.
std::vector<std::string> model_names();
/// Whether the model reads tokens; otherwise images.
bool reads_tokens(const ModelRecipe& recipe);

/// Tokens a sample, 0 for models that read images.
int64_t tokens_per_sample(const ModelRecipe& recipe);

/// Shape of an image that the model reads; empty for models that read tokens.
std::vector<int64_t> sample_shape(const ModelRecipe& recipe);

/// One micro-batch of the model's inputs, on the meta device.
Tensors meta_inputs(const ModelRecipe& recipe, int64_t micro_batch);

/// The arguments of the model's loss for a micro-batch, on the meta device: outputs of `dtype`, and the target.
std::pair<Tensors, at::Tensor> meta_loss_arguments(const ModelRecipe& recipe, int64_t micro_batch, at::ScalarType dtype);

/// How large a model is; roughly, and not below.
struct RoughSize {
  double sample_bytes = 0.0;  ///< of one sample's activations
  double weights = 0.0;       ///< elements
};
/// The size of the recipe's model, without making it.
RoughSize rough_size(const ModelRecipe& recipe);

}  // namespace weft
