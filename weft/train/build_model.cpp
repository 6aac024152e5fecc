#include "weft/train/build_model.h"

#include <ATen/ops/empty.h>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/models/gpt.h"
#include "weft/models/vision.h"
#include "weft/nn/cost.h"
#include "weft/nn/flat.h"
#include "weft/program/step_bytes.h"

namespace weft {

namespace {

constexpr int64_t kImageSize = 28;  // the MNIST family

Tensors meta_inputs(const ModelRecipe& recipe, int64_t micro_batch) {
  const auto meta = at::TensorOptions().device(at::kMeta);
  if (recipe.name == "gpt") return {at::empty({micro_batch, recipe.context}, meta.dtype(at::kLong))};
  return {at::empty({micro_batch, 1, kImageSize, kImageSize}, meta.dtype(at::kFloat))};
}

/// What the loss gets of a micro-batch, on the meta device.
std::pair<Tensors, at::Tensor> loss_arguments(const ModelRecipe& recipe, int64_t micro_batch, at::ScalarType dtype) {
  const auto meta = at::TensorOptions(dtype).device(at::kMeta);
  const auto ids = meta.dtype(at::kLong);
  if (recipe.name == "gpt") {
    return {{at::empty({micro_batch, recipe.context, recipe.vocabulary}, meta)}, at::empty({micro_batch, recipe.context}, ids)};
  }
  return {{at::empty({micro_batch, recipe.classes}, meta)}, at::empty({micro_batch}, ids)};
}

int64_t count_parameters(Block& block) {
  int64_t count = 0;
  for (const ParamSpec& spec : block.parameters()) count += spec.statistic || spec.frozen ? 0 : spec.parameter->value.numel();
  return count;
}

/// Bytes of one sample's activations, and elements of the weights; roughly, and not below.
struct RoughSize {
  double sample_bytes = 0.0;
  double weights = 0.0;
};

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

}  // namespace

void check_countable(const Recipe& recipe, int64_t micro_batch) {
  const RoughSize size = rough_size(recipe.model);
  if (size.weights > static_cast<double>(kMostElements)) {
    throw InputError(
        fmt::format("{}: the model has some {:.1e} weights, more than the {:.1e} that can be counted; use fewer or "
                    "narrower layers (model.layers, model.width)",
                    recipe.path, size.weights, static_cast<double>(kMostElements)));
  }
  const double activations = size.sample_bytes * static_cast<double>(micro_batch);
  if (activations <= static_cast<double>(kMostBytes)) return;
  throw InputError(
      fmt::format("{}: a micro-batch of {} samples makes some {:.1e} bytes with this model, more than can be counted; "
                  "use smaller ones (batch.micro), more data-parallel ranks or a smaller model",
                  recipe.path, micro_batch, activations));
}

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

at::ScalarType dtype_of(Precision precision) {
  if (precision == Precision::bf16) return at::kBFloat16;
  return precision == Precision::fp16 ? at::kHalf : at::kFloat;
}

int64_t tokens_per_sample(const ModelRecipe& recipe) { return recipe.name == "gpt" ? recipe.context : 0; }

std::vector<int64_t> sample_shape(const ModelRecipe& recipe) {
  if (recipe.name == "gpt") return {};
  return {1, kImageSize, kImageSize};
}

ModelCost model_cost(const Recipe& recipe, int64_t micro_batch, const LayoutOptions& layout, bool reproducible) {
  Model model = build_model(recipe.model);
  const Tensors inputs = meta_inputs(recipe.model, micro_batch);
  ModelCost cost{.name = model.name, .blocks = {}, .input_bytes = 0};
  for (const at::Tensor& input : inputs) cost.input_bytes += input.numel() * static_cast<int64_t>(input.element_size());
  const at::ScalarType weights = dtype_of(layout.precision);
  const CostOptions options{.weight_dtype = weights,
                            .gradient_dtype = gradient_bytes(layout, reproducible) == 4 ? at::kFloat : weights,
                            .recompute_parts = layout.recompute_parts};
  const std::vector<MeasuredCost> measured = measure_cost(model, inputs, options);
  for (size_t b = 0; b < measured.size(); ++b) {
    Block& block = *model.blocks[b].block;
    cost.blocks.push_back({.name = model.blocks[b].name,
                           .parameters = count_parameters(block),
                           .numel = flat_numel(block),
                           .forward_flops = measured[b].forward_flops,
                           .backward_flops = measured[b].backward_flops,
                           .saved_bytes = measured[b].saved_bytes,
                           .output_bytes = measured[b].output_bytes,
                           .keeps_output = measured[b].keeps_output,
                           .forward_peak_bytes = measured[b].forward_peak_bytes,
                           .backward_peak_bytes = measured[b].backward_peak_bytes,
                           .uses = model.blocks[b].uses,
                           .splits = block.can_split_backward(),
                           .input_flops = measured[b].input_flops,
                           .deferred_bytes = measured[b].deferred_bytes,
                           .frozen_numel = frozen_numel(block)});
  }
  const auto [outputs, target] = loss_arguments(recipe.model, micro_batch, weights);
  cost.loss_peak_bytes = measure_loss_peak(model, outputs, target);
  return cost;
}

}  // namespace weft
