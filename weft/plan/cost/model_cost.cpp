#include "weft/plan/cost/model_cost.h"

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/nn/tensor_parallel/apply_splits.h"
#include "weft/optim/block_update.h"
#include "weft/optim/freeze.h"
#include "weft/plan/layout/composition.h"
#include "weft/plan/layout/weight_dtype.h"
#include "weft/program/limits.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"

namespace weft {

namespace {

int64_t count_parameters(Block& block) {
  int64_t count = 0;
  for (const ParamSpec& spec : block.parameters()) count += spec.statistic || spec.frozen ? 0 : spec.parameter->value.numel();
  return count;
}

/// The axes of the groups that CostOptions counts the ranks of.
struct CallAxes {
  AxisSet batch;

  AxisSet of(const std::string& group) const {
    if (group == "batch") return batch;
    return group == "tp" ? kTensorAxis : kContextAxis;
  }
};

std::vector<InnerCall> inner_calls(const std::vector<RecordedCall>& calls, const CallAxes& axes) {
  std::vector<InnerCall> result;
  result.reserve(calls.size());
  for (const RecordedCall& call : calls) {
    result.push_back({axes.of(call.group), call.rounds, call.wire_bytes, call.begins_at, call.awaited_at});
  }
  return result;
}

int batch_ranks(SyncBatchNorm sync, const StepCounts& counts) {
  const AxisSet axes = axes_of(sync);
  return (axes.has(kReplicaAxis) ? counts.dp : 1) * (axes.has(kShardAxis) ? counts.shard : 1);
}

BlockCost block_cost(const NamedBlock& named, const MeasuredCost& measured, const CallAxes& axes) {
  Block& block = *named.block;
  const BlockTraffic& traffic = measured.traffic;
  return {.name = named.name,
          .parameters = count_parameters(block),
          .tensors = static_cast<int64_t>(block.parameters().size()),
          .told = num_told(block),
          .numel = flat_numel(block),
          .forward_flops = measured.forward_flops,
          .backward_flops = measured.backward_flops,
          .saved_bytes = measured.saved_bytes,
          .output_bytes = measured.output_bytes,
          .passed_bytes = measured.passed_bytes,
          .keeps_output = measured.keeps_output,
          .forward_peak_bytes = measured.forward_peak_bytes,
          .backward_peak_bytes = measured.backward_peak_bytes,
          .uses = named.uses,
          .splits = block.can_split_backward(),
          .input_flops = measured.input_flops,
          .deferred_bytes = measured.deferred_bytes,
          .input_peak_bytes = measured.input_peak_bytes,
          .weight_peak_bytes = measured.weight_peak_bytes,
          .frozen_numel = frozen_numel(block),
          .calls = {.forward = inner_calls(traffic.forward, axes),
                    .backward = inner_calls(traffic.backward, axes),
                    .input = inner_calls(traffic.input, axes),
                    .weight = inner_calls(traffic.weight, axes)}};
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

ModelCost model_cost(const Recipe& recipe, int64_t micro_batch, const LayoutOptions& layout, const StepCounts& counts) {
  Model model = with_rules(build_model(recipe.model), recipe.optimizer.groups);
  check_composition(facts_of(model, layout, counts, tokens_per_sample(recipe.model)));
  split_layers(model, counts.tp, 0, counts.reproducible_tp);
  const Tensors inputs = meta_inputs(recipe, micro_batch, counts.cp);
  ModelCost cost{.name = model.name, .blocks = {}, .input_bytes = 0};
  const at::ScalarType weights = dtype_of(layout.precision);
  for (const at::Tensor& input : inputs) {
    cost.input_bytes +=
        input.numel() * static_cast<int64_t>(elementSize(input.is_floating_point() ? weights : input.scalar_type()));
  }
  const CostOptions options{.weight_dtype = weights,
                            .gradient_dtype = gradient_bytes(layout, counts.reproducible) == 4 ? at::kFloat : weights,
                            .tp = counts.tp,
                            .cp = counts.cp,
                            .batch_ranks = batch_ranks(layout.sync_batch_norm, counts),
                            .layout = block_layout(layout, counts.tp, counts.batch_pieces)};
  const CallAxes axes{axes_of(layout.sync_batch_norm)};
  Tensors outputs;
  const std::vector<MeasuredCost> measured = measure_cost(model, inputs, options, &outputs);
  const std::vector<BlockUpdate> updates = block_updates(model, optimizer_of(recipe.optimizer), recipe.optimizer.groups,
                                                         gradient_bytes(layout, counts.reproducible));
  for (size_t b = 0; b < measured.size(); ++b) {
    cost.blocks.push_back(block_cost(model.blocks[b], measured[b], axes));
    cost.blocks.back().gathered_gradient_bytes = updates[b].gathered_bytes;
  }
  const LossCost loss = measure_loss(model, outputs, meta_target(recipe, micro_batch, counts.cp), options);
  cost.loss_peak_bytes = loss.peak_bytes;
  cost.loss_calls = inner_calls(loss.calls, axes);
  return cost;
}

}  // namespace weft
