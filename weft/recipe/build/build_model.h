// Builds the model of a recipe: the one place that knows the models' names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/model.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Returns the recipe's model. Its parameters are on the meta device: nothing is allocated until a FlatModel binds them.
Model build_model(const ModelRecipe& recipe);

/// The model.name of a model from a file.
inline constexpr const char* kExportedName = "exported";

/// Weights that a run starts from: model.weights, or else those in the file of an exported model; empty: random.
std::string initial_weights(const ModelRecipe& recipe);

/// Valid values of model.name.
std::vector<std::string> model_names();
/// Returns true if the model reads tokens.
bool reads_tokens(const ModelRecipe& recipe);
/// Returns true if it reads arrays of what shape its file says. Otherwise, without tokens, images.
bool reads_arrays(const ModelRecipe& recipe);
/// Returns true if its outputs are logits: targets are classes, or tokens.
bool has_classes(const ModelRecipe& recipe);
/// Returns true if model.loss names a file.
bool has_loss_file(const ModelRecipe& recipe);
/// Numbers of model.class_weights. Throws InputError for what is no number of at least 0.
std::vector<double> class_weights(const ModelRecipe& recipe);

/// Tokens per sample; 0 for models that read others.
int64_t tokens_per_sample(const ModelRecipe& recipe);

/// Shape of the model's input image; empty for models that read others.
std::vector<int64_t> sample_shape(const ModelRecipe& recipe);

/// Shapes and types of a micro-batch: tensors on the meta device.
struct MetaBatch {
  Tensors inputs;                  ///< each of [micro_batch, ...]
  std::vector<std::string> names;  ///< of a model of arrays: the inputs', forward's arguments; else empty
  at::Tensor target;               ///< [micro_batch, ...]
};
/// One micro-batch as the model's data provides it; with `cp` ranks per sequence, one rank's part.
MetaBatch meta_batch(const Recipe& recipe, int64_t micro_batch, int cp = 1);

/// Classes of a model of arrays whose loss is the cross entropy: the limit on its targets; otherwise 0.
int64_t array_classes(const ModelRecipe& recipe);

/// Rough size of a model, never an underestimate.
struct RoughSize {
  double sample_bytes = 0.0;  ///< activations per sample
  double weights = 0.0;       ///< elements
};
/// Estimates the size of the recipe's model without building it.
RoughSize rough_size(const ModelRecipe& recipe);

}  // namespace weft
