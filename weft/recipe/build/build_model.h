// From a recipe to its model: the one place that knows the models' names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/model.h"
#include "weft/recipe/recipe.h"

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

/// One micro-batch of the model's inputs, as its data has them, on the meta device; of sequences that `cp` ranks share, one's
/// part.
Tensors meta_inputs(const Recipe& recipe, int64_t micro_batch, int cp = 1);

/// The target of a micro-batch, as its data has it, likewise.
at::Tensor meta_target(const Recipe& recipe, int64_t micro_batch, int cp = 1);

/// How large a model is; roughly, and not below.
struct RoughSize {
  double sample_bytes = 0.0;  ///< of one sample's activations
  double weights = 0.0;       ///< elements
};
/// The size of the recipe's model, without making it.
RoughSize rough_size(const ModelRecipe& recipe);

}  // namespace weft
