#include "weft/train/recipe/build_model.h"

#include <ATen/ops/empty.h>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/models/gpt.h"
#include "weft/models/vision.h"

namespace weft {

namespace {

constexpr int64_t kImageSize = 28;  // the MNIST family

}  // namespace

Model build_model(const ModelRecipe& r) {
  if (r.name == "gpt") {
    return gpt({.layers = r.layers,
                .heads = r.heads,
                .width = r.width,
                .context = r.context,
                .vocabulary = r.vocabulary,
                .tied_embeddings = r.tied_embeddings,
                .dropout = r.dropout});
  }
  if (r.name == "cnn") return cnn({.channels = 1, .size = kImageSize, .width = r.width, .classes = r.classes});
  if (r.name == "mlp") {
    return mlp({.inputs = kImageSize * kImageSize, .width = r.width, .layers = r.layers, .classes = r.classes});
  }
  throw InputError(fmt::format("model.name is '{}'; it must be gpt, cnn or mlp", r.name));
}

int64_t tokens_per_sample(const ModelRecipe& recipe) { return recipe.name == "gpt" ? recipe.context : 0; }

std::vector<int64_t> sample_shape(const ModelRecipe& recipe) {
  if (recipe.name == "gpt") return {};
  return {1, kImageSize, kImageSize};
}

Tensors meta_inputs(const ModelRecipe& recipe, int64_t micro_batch) {
  const auto meta = at::TensorOptions().device(at::kMeta);
  if (recipe.name == "gpt") return {at::empty({micro_batch, recipe.context}, meta.dtype(at::kLong))};
  return {at::empty({micro_batch, 1, kImageSize, kImageSize}, meta.dtype(at::kFloat))};
}

std::pair<Tensors, at::Tensor> meta_loss_arguments(const ModelRecipe& recipe, int64_t micro_batch, at::ScalarType dtype) {
  const auto meta = at::TensorOptions(dtype).device(at::kMeta);
  const auto ids = meta.dtype(at::kLong);
  if (recipe.name == "gpt") {
    return {{at::empty({micro_batch, recipe.context, recipe.vocabulary}, meta)}, at::empty({micro_batch, recipe.context}, ids)};
  }
  return {{at::empty({micro_batch, recipe.classes}, meta)}, at::empty({micro_batch}, ids)};
}

RoughSize rough_size(const ModelRecipe& m) {
  const auto layers = static_cast<double>(m.layers), width = static_cast<double>(m.width);
  const auto classes = static_cast<double>(m.classes), pixels = static_cast<double>(kImageSize * kImageSize);
  if (m.name == "gpt") {
    const auto context = static_cast<double>(m.context), words = static_cast<double>(m.vocabulary);
    return {.sample_bytes = context * (200.0 * layers * width + 24.0 * words),
            .weights = layers * (12.0 * width + 13.0) * width + 2.0 * words * width + context * width};
  }
  if (m.name == "cnn") return {.sample_bytes = 100.0 * pixels * width, .weights = (1000.0 * width + 4.0 * classes) * width};
  return {.sample_bytes = 40.0 * layers * (width + pixels + classes), .weights = layers * width * (width + pixels + classes)};
}

}  // namespace weft
