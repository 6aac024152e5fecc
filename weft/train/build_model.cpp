#include "weft/train/build_model.h"

#include <ATen/ops/empty.h>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/models/gpt.h"
#include "weft/models/vision.h"
#include "weft/nn/cost.h"
#include "weft/nn/flat.h"

namespace weft {

namespace {

constexpr int64_t kImageSize = 28;  // the MNIST family

Tensors meta_inputs(const ModelRecipe& recipe, int64_t micro_batch) {
  const auto meta = at::TensorOptions().device(at::kMeta);
  if (recipe.name == "gpt") return {at::empty({micro_batch, recipe.context}, meta.dtype(at::kLong))};
  return {at::empty({micro_batch, 1, kImageSize, kImageSize}, meta.dtype(at::kFloat))};
}

/// What the loss gets: outputs of a micro-batch on the meta device, and the shape of one sample's target.
std::pair<Tensors, std::vector<int64_t>> loss_arguments(const ModelRecipe& recipe, int64_t micro_batch, at::ScalarType dtype) {
  const auto meta = at::TensorOptions(dtype).device(at::kMeta);
  if (recipe.name == "gpt") {
    return {{at::empty({micro_batch, recipe.context, recipe.vocabulary}, meta)}, {recipe.context}};
  }
  return {{at::empty({micro_batch, recipe.classes}, meta)}, {}};
}

int64_t count_parameters(Block& block) {
  int64_t count = 0;
  for (const ParamSpec& spec : block.parameters()) count += spec.statistic ? 0 : spec.parameter->value.numel();
  return count;
}

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
                           .forward_peak_bytes = measured[b].forward_peak_bytes,
                           .backward_peak_bytes = measured[b].backward_peak_bytes,
                           .uses = model.blocks[b].uses,
                           .splits = block.can_split_backward(),
                           .input_flops = measured[b].input_flops,
                           .deferred_bytes = measured[b].deferred_bytes});
  }
  const auto [outputs, target] = loss_arguments(recipe.model, micro_batch, weights);
  cost.loss_peak_bytes = measure_loss_peak(model, outputs, target);
  return cost;
}

}  // namespace weft
