#include "weft/recipe/build/build_model.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"
#include "weft/exported/exported_model.h"
#include "weft/models/gpt.h"
#include "weft/models/llama.h"
#include "weft/models/resnet.h"
#include "weft/models/vision.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/loss/weighted_cross_entropy.h"

namespace weft {

namespace {

Model build_gpt(const ModelRecipe& r) {
  return gpt({.layers = r.layers,
              .heads = r.heads,
              .width = r.width,
              .context = r.context,
              .vocabulary = r.vocabulary,
              .tied_embeddings = r.tied_embeddings,
              .dropout = r.dropout});
}

RoughSize gpt_size(const ModelRecipe& m) {
  const auto layers = static_cast<double>(m.layers), width = static_cast<double>(m.width);
  const auto context = static_cast<double>(m.context), words = static_cast<double>(m.vocabulary);
  return {.sample_bytes = context * (200.0 * layers * width + 24.0 * words),
          .weights = layers * (12.0 * width + 13.0) * width + 2.0 * words * width + context * width};
}

Model build_llama(const ModelRecipe& r) {
  return llama({.layers = r.layers,
                .heads = r.heads,
                .kv_heads = r.kv_heads,
                .width = r.width,
                .ffn = r.ffn,
                .context = r.context,
                .vocabulary = r.vocabulary,
                .rope_theta = r.rope_theta,
                .norm_eps = r.norm_eps,
                .tied_embeddings = r.tied_embeddings});
}

RoughSize llama_size(const ModelRecipe& m) {
  const auto layers = static_cast<double>(m.layers), width = static_cast<double>(m.width);
  const auto context = static_cast<double>(m.context), words = static_cast<double>(m.vocabulary);
  const auto ffn = static_cast<double>(m.ffn > 0 ? m.ffn : llama_ffn(m.width));
  return {.sample_bytes = context * (layers * (100.0 * width + 40.0 * ffn) + 24.0 * words),
          .weights = layers * (4.0 * width + 3.0 * ffn + 2.0) * width + 2.0 * words * width + width};
}

Model build_cnn(const ModelRecipe& r) {
  return cnn({.channels = r.channels, .size = r.image_size, .width = r.width, .classes = r.classes});
}

RoughSize cnn_size(const ModelRecipe& m) {
  const auto width = static_cast<double>(m.width), classes = static_cast<double>(m.classes);
  const auto pixels = static_cast<double>(m.image_size * m.image_size);
  return {.sample_bytes = 100.0 * pixels * width, .weights = (1000.0 + 0.5 * pixels) * width * width + 4.0 * classes * width};
}

Model build_mlp(const ModelRecipe& r) {
  return mlp({.inputs = r.channels * r.image_size * r.image_size, .width = r.width, .layers = r.layers, .classes = r.classes});
}

RoughSize mlp_size(const ModelRecipe& m) {
  const auto layers = static_cast<double>(m.layers), width = static_cast<double>(m.width);
  const auto classes = static_cast<double>(m.classes), pixels = static_cast<double>(m.channels * m.image_size * m.image_size);
  return {.sample_bytes = 40.0 * layers * (width + pixels + classes), .weights = layers * width * (width + pixels + classes)};
}

Model build_resnet(const ModelRecipe& r) {
  return resnet({.depth = r.depth,
                 .channels = r.channels,
                 .classes = r.classes,
                 .norm = kResnetNorms.value_of(r.norm, "model.norm"),
                 .zero_init_residual = r.zero_init_residual});
}

RoughSize resnet_size(const ModelRecipe& m) {
  const auto depth = static_cast<double>(m.depth), pixels = static_cast<double>(m.image_size * m.image_size);
  return {.sample_bytes = 400.0 * pixels * depth, .weights = 1e6 * depth + 2048.0 * static_cast<double>(m.classes)};
}

ExportedModelOptions exported_options(const ModelRecipe& r) {
  const bool has_size = has_classes(r) && !reads_arrays(r);
  return {.path = r.path,
          .blocks = r.blocks,
          .splits = {.columns = r.tp_columns, .rows = r.tp_rows, .vocabulary = r.tp_vocabulary},
          .reads_tokens = reads_tokens(r),
          .reads_arrays = reads_arrays(r),
          .sample_shape = reads_tokens(r) ? std::vector<int64_t>{r.context} : sample_shape(r),
          .classes = !has_size         ? 0
                     : reads_tokens(r) ? r.vocabulary
                                       : r.classes,
          .loss = r.loss};
}

Model build_exported(const ModelRecipe& r) { return exported_model(exported_options(r)); }

RoughSize exported_rough_size(const ModelRecipe& r) {
  const ExportedSize size = exported_size(r.path);
  return {.sample_bytes = size.sample_bytes, .weights = size.weights};
}

struct NamedModel {
  std::string_view name;
  bool reads_tokens;  ///< otherwise images
  Model (*build)(const ModelRecipe& recipe);
  RoughSize (*size)(const ModelRecipe& recipe);
};

constexpr NamedModel kModels[] = {
    {"gpt", true, build_gpt, gpt_size},           {"llama", true, build_llama, llama_size},
    {"cnn", false, build_cnn, cnn_size},          {"mlp", false, build_mlp, mlp_size},
    {"resnet", false, build_resnet, resnet_size}, {kExportedName, false, build_exported, exported_rough_size}};

const NamedModel& named(const ModelRecipe& recipe) {
  for (const NamedModel& model : kModels) {
    if (model.name == recipe.name) return model;
  }
  throw InputError(
      fmt::format("model.name is '{}'; it must be one of {}", shortened(recipe.name), fmt::join(model_names(), ", ")));
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const NamedModel& model : kModels) names.emplace_back(model.name);
  return names;
}

bool reads_tokens(const ModelRecipe& recipe) {
  return named(recipe).reads_tokens || (recipe.name == kExportedName && recipe.inputs == "tokens");
}

bool reads_arrays(const ModelRecipe& recipe) { return recipe.name == kExportedName && recipe.inputs == "arrays"; }

bool has_classes(const ModelRecipe& recipe) { return recipe.loss == ModelRecipe().loss; }

bool has_loss_file(const ModelRecipe& recipe) { return recipe.loss.ends_with(".pt2"); }

std::vector<double> class_weights(const ModelRecipe& recipe) {
  std::vector<double> weights;
  if (recipe.class_weights.empty()) return weights;
  std::stringstream parts(recipe.class_weights + ",");  // keeps an empty last part
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t begin = std::min(part.find_first_not_of(' '), part.size()), end = part.find_last_not_of(' ') + 1;
    const auto weight = parse_number<double>(std::string_view(part).substr(begin, std::max(begin, end) - begin));
    if (!weight || !(*weight >= 0.0) || !std::isfinite(*weight)) {
      part.erase(0, begin);
      throw InputError(fmt::format(
          "model.class_weights: '{}' is no number of at least 0; give one per class, as in \"1, 0.5, 2\"", shortened(part)));
    }
    weights.push_back(*weight);
  }
  return weights;
}

std::string initial_weights(const ModelRecipe& recipe) {
  return recipe.weights.empty() && recipe.name == kExportedName ? recipe.path : recipe.weights;
}

Model build_model(const ModelRecipe& recipe) {
  Model model = named(recipe).build(recipe);
  const std::vector<double> weights = class_weights(recipe);
  if (!weights.empty()) model.loss = weighted_cross_entropy(weights);
  if (recipe.label_smoothing > 0.0) {
    model.evaluation_loss = model.loss;
    model.loss = weights.empty() ? smoothed_cross_entropy(recipe.label_smoothing)
                                 : weighted_cross_entropy(weights, recipe.label_smoothing);
  }
  return model;
}

int64_t tokens_per_sample(const ModelRecipe& recipe) { return reads_tokens(recipe) ? recipe.context : 0; }

std::vector<int64_t> sample_shape(const ModelRecipe& recipe) {
  if (reads_tokens(recipe) || reads_arrays(recipe)) return {};
  return {recipe.channels, recipe.image_size, recipe.image_size};
}

namespace {

at::Tensor meta_array(const ExportedArray& array, int64_t samples) {
  std::vector<int64_t> sizes = {samples};
  sizes.insert(sizes.end(), array.shape.begin(), array.shape.end());
  return at::empty(sizes, at::TensorOptions(array.type).device(at::kMeta));
}

}  // namespace

MetaBatch meta_batch(const Recipe& recipe, int64_t micro_batch, int cp) {
  const ModelRecipe& model = recipe.model;
  const auto meta = at::TensorOptions().device(at::kMeta);
  MetaBatch batch;
  if (reads_arrays(model)) {
    const ExportedArrays arrays = exported_arrays(exported_options(model));
    for (const ExportedArray& input : arrays.inputs) batch.inputs.push_back(meta_array(input, micro_batch));
    batch.names = arrays.names;
    batch.target = meta_array(arrays.target, micro_batch);
  } else if (reads_tokens(model)) {
    // The second: token positions within documents.
    for (int i = 0; i < (recipe.data.pack == "documents" ? 2 : 1); ++i) {
      batch.inputs.push_back(at::empty({micro_batch, model.context / cp}, meta.dtype(at::kLong)));
    }
    batch.target = at::empty({micro_batch, model.context / cp}, meta.dtype(at::kLong));
  } else {
    batch.inputs = {at::empty({micro_batch, model.channels, model.image_size, model.image_size}, meta.dtype(at::kFloat))};
    batch.target = recipe.data.mixup > 0.0 ? at::empty({micro_batch, model.classes}, meta.dtype(at::kFloat))
                                           : at::empty({micro_batch}, meta.dtype(at::kLong));
  }
  return batch;
}

int64_t array_classes(const ModelRecipe& recipe) {
  return reads_arrays(recipe) ? exported_arrays(exported_options(recipe)).classes : 0;
}

RoughSize rough_size(const ModelRecipe& recipe) { return named(recipe).size(recipe); }

}  // namespace weft
