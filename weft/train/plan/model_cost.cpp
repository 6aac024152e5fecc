#include "weft/train/plan/model_cost.h"

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/nn/cost.h"
#include "weft/nn/flat.h"
#include "weft/program/limits.h"
#include "weft/train/plan/weight_dtype.h"
#include "weft/train/recipe/build_model.h"

namespace weft {

namespace {

int64_t count_parameters(Block& block) {
  int64_t count = 0;
  for (const ParamSpec& spec : block.parameters()) count += spec.statistic || spec.frozen ? 0 : spec.parameter->value.numel();
  return count;
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
  const auto [outputs, target] = meta_loss_arguments(recipe.model, micro_batch, weights);
  cost.loss_peak_bytes = measure_loss_peak(model, outputs, target);
  return cost;
}

}  // namespace weft
