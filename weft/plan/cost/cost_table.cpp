#include "weft/plan/cost/cost_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>
#include <variant>

#include "weft/base/error.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/nn/tensor_parallel/apply_splits.h"
#include "weft/optim/block_update.h"
#include "weft/optim/freeze.h"
#include "weft/plan/layout/composition.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/plan/layout/weight_dtype.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"

namespace weft {

namespace {

int64_t count_parameters(Block& block) {
  int64_t count = 0;
  for (const ParamSpec& spec : block.parameters()) count += spec.statistic || spec.frozen ? 0 : spec.parameter->value.numel();
  return count;
}

/// Axes of the groups whose sizes CostOptions holds.
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
    result.push_back({axes.of(call.group), call.rounds, call.wire_bytes, call.begins_at, call.waited_at});
  }
  return result;
}

int batch_ranks(SyncBatchNorm sync, const StepCounts& counts) {
  const AxisSet axes = axes_of(sync);
  return (axes.has(kReplicaAxis) ? counts.dp : 1) * (axes.has(kShardAxis) ? counts.shard : 1);
}

BlockCost block_cost(const NamedBlock& named, const MeasuredCost& measured, const BlockLayout& layout, const CallAxes& axes) {
  Block& block = *named.block;
  const BlockTraffic& traffic = measured.traffic;
  return {.name = named.name,
          .parameters = count_parameters(block),
          .tensors = static_cast<int64_t>(block.parameters().size()),
          .partial_numel = measured.partial_numel,
          .flagged = num_flagged(block),
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
          .splits = splits_backward(block, layout),
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

/// The same table for equal operators; null where none are counted.
SharedOperators shared(const BlockOperators& operators, std::vector<SharedOperators>& known) {
  if (operators == BlockOperators()) return nullptr;
  const auto found = std::find_if(known.begin(), known.end(), [&](const SharedOperators& x) { return *x == operators; });
  return found != known.end() ? *found : known.emplace_back(std::make_shared<const BlockOperators>(operators));
}

int sum_of(const LaunchesByKernel& launches) {
  int sum = 0;
  for (const auto& [kernel, count] : launches) sum += count;
  return sum;
}

/// Running statistics are kept, compared and put back around a forward; their change is added after a backward.
void add_statistics(BlockLaunches& block) {
  block.forward += 3;
  for (int* writes : {&block.backward, &block.weight}) *writes += 2;
  for (int* adds : {&block.adding_backward, &block.adding_weight}) *adds += 1;
}

ModelLaunches launches_of(const Model& model, const std::vector<MeasuredCost>& measured, const LossCost& loss) {
  ModelLaunches result{.blocks = {}, .loss = sum_of(loss.launches)};
  std::set<bool> decays;
  for (size_t b = 0; b < measured.size(); ++b) {
    const MeasuredLaunches& of = measured[b].launches;
    result.blocks.push_back({.forward = sum_of(of.forward),
                             .backward = sum_of(of.backward),
                             .adding_backward = sum_of(of.adding_backward),
                             .input = sum_of(of.input),
                             .weight = sum_of(of.weight),
                             .adding_weight = sum_of(of.adding_weight)});
    bool has_statistics = false;
    std::set<bool> own;
    for (const ParamSpec& spec : model.blocks[b].block->parameters()) {
      if (!spec.statistic && !spec.frozen) own.insert(spec.decay);
      has_statistics |= spec.statistic;
    }
    result.blocks.back().decays = static_cast<int>(own.size());
    decays.merge(own);
    if (has_statistics) add_statistics(result.blocks.back());
  }
  result.decays = static_cast<int>(decays.size());
  result.shapes_vary = model.shapes_vary;
  return result;
}

/// Kind of a layer, and the shapes of its parameters; empty if it is like no other.
std::string layer_kind(const NamedBlock& named) {
  const auto* with_kind = dynamic_cast<const HasKind*>(named.block.get());
  if (with_kind == nullptr || !named.uses.empty()) return "";
  std::string text = with_kind->kind();
  for (const ParamSpec& spec : named.block->parameters()) {
    text += fmt::format("; [{}]", fmt::join(spec.parameter->value.sizes(), ","));
  }
  return text;
}

/// How many layers stand for all in a model of an embedding, layers and a head. Three: the first may make what others share, or
/// take other inputs; the second may be the first of a kind, which costs more than those after it; the third is like all the
/// rest. All layers, if these are not alike or have rules.
int64_t measured_layers(const Recipe& recipe, const Model& model) {
  constexpr int64_t kFew = 3;
  const int64_t layers = recipe.model.layers;
  if (!recipe.optimizer.groups.empty() || std::ssize(model.blocks) != layers + 2 || layers <= kFew) return layers;
  const std::string kind = layer_kind(model.blocks[2]);
  const bool alike = std::all_of(model.blocks.begin() + 2, model.blocks.end() - 1,
                                 [&](const NamedBlock& layer) { return layer_kind(layer) == kind; });
  return alike && !kind.empty() ? kFew : layers;
}

}  // namespace

CostTable::CostTable(const Recipe& recipe)
    : recipe_(recipe),
      device_(planned_device(recipe)),
      optimizer_(optimizer_of(recipe.optimizer)),
      model_(with_rules(build_model(recipe.model), recipe.optimizer.groups)),
      facts_(model_facts(model_, tokens_per_sample(recipe.model))),
      measured_layers_(measured_layers(recipe, model_)) {}

const ModelCost& CostTable::model_cost(int64_t micro_batch, const LayoutOptions& layout, const StepCounts& counts) {
  return at(micro_batch, layout, counts).cost;
}

const ModelLaunches& CostTable::model_launches(int64_t micro_batch, const LayoutOptions& layout, const StepCounts& counts) {
  return at(micro_batch, layout, counts).launches;
}

const CostTable::Measured& CostTable::at(int64_t micro_batch, const LayoutOptions& layout, const StepCounts& counts) {
  check_composition(with_layout(facts_, layout, counts));
  BlockLayout blocks = block_layout(layout, counts.tp, counts.batch_pieces);
  blocks.partial_gradients = has_partial_gradients(layout, counts);
  const Key key{.micro_batch = micro_batch,
                .tp = counts.tp,
                .parts = counts.reproducible_tp,
                .cp = counts.cp,
                .batch_ranks = batch_ranks(layout.sync_batch_norm, counts),
                .gradient_bytes = gradient_bytes(layout, counts.reproducible),
                .batch_axes = axes_of(layout.sync_batch_norm),
                .precision = layout.precision,
                .blocks = blocks};
  std::unique_lock lock(costs_mutex_);
  Slot& slot = costs_[key];
  lock.unlock();
  const std::lock_guard own(slot.mutex);
  if (slot.error) std::rethrow_exception(slot.error);
  if (!slot.measured) {
    try {
      slot.measured = measured(key);
      ++num_measured_;
    } catch (const InputError&) {
      slot.error = std::current_exception();
      throw;
    }
  }
  return *slot.measured;
}

/// Layers that are not measured cost what the last measured one does.
CostTable::Measured CostTable::with_all_layers(Measured few) const {
  std::vector<BlockCost>& blocks = few.cost.blocks;
  std::vector<BlockLaunches>& launches = few.launches.blocks;
  const auto last_layer = measured_layers_, missing = std::ssize(model_.blocks) - std::ssize(blocks);
  if (missing == 0) return few;
  blocks.insert(blocks.begin() + last_layer, static_cast<size_t>(missing), BlockCost(blocks[last_layer]));
  for (size_t b = 0; b < blocks.size(); ++b) blocks[b].name = model_.blocks[b].name;
  if (!launches.empty()) {
    launches.insert(launches.begin() + last_layer, static_cast<size_t>(missing), BlockLaunches(launches[last_layer]));
  }
  return few;
}

CostTable::Measured CostTable::measured(const Key& key) {
  ModelRecipe few = recipe_.model;
  few.layers = measured_layers_;
  Model model = with_rules(build_model(few), recipe_.optimizer.groups);
  split_layers(model, key.tp, 0, key.parts);
  const MetaBatch batch = meta_batch(recipe_, key.micro_batch, key.cp);
  Measured result{.cost = {.name = model.name, .blocks = {}, .input_bytes = 0, .head_takes_targets = key.blocks.loss_chunk > 0},
                  .launches = {}};
  ModelCost& cost = result.cost;
  const at::ScalarType weights = dtype_of(key.precision);
  for (const at::Tensor& input : batch.inputs) {
    cost.input_bytes +=
        input.numel() * static_cast<int64_t>(elementSize(input.is_floating_point() ? weights : input.scalar_type()));
    cost.upload_bytes += static_cast<int64_t>(input.nbytes());
  }
  const CostOptions options{.weight_dtype = weights,
                            .gradient_dtype = key.gradient_bytes == 4 ? at::kFloat : weights,
                            .tp = key.tp,
                            .cp = key.cp,
                            .batch_ranks = key.batch_ranks,
                            .layout = key.blocks,
                            .target = key.blocks.loss_chunk > 0 ? batch.target : at::Tensor(),
                            .device = device_};
  const CallAxes axes{key.batch_axes};
  Tensors outputs;
  const std::vector<MeasuredCost> measured = measure_cost(model, batch.inputs, options, &outputs);
  std::vector<SharedOperators> known;
  for (size_t b = 0; b < measured.size(); ++b) {
    cost.blocks.push_back(block_cost(model.blocks[b], measured[b], key.blocks, axes));
    cost.blocks.back().operators = shared(measured[b].operators, known);
  }
  const LossCost loss = measure_loss(model, outputs, batch.target, options);
  cost.loss_peak_bytes = loss.peak_bytes;
  cost.loss_calls = inner_calls(loss.calls, axes);
  cost.loss_operators = loss.operators;
  if (device_ == TargetDevice::gpu) {
    result.launches = launches_of(model, measured, loss);
    result.launches.reads_late = takes_gate(optimizer_);
  }
  result = with_all_layers(std::move(result));
  const std::vector<BlockUpdate>& updates = block_updates(key.gradient_bytes);
  for (size_t b = 0; b < updates.size(); ++b) {
    BlockCost& block = result.cost.blocks[b];
    block.gathered_gradient_bytes = updates[b].gathered_bytes;
    block.states = updates[b].states + (recipe_.optimizer.ema > 0.0 ? 1 : 0);
    block.part_state = updates[b].part_state;
  }
  return result;
}

const std::vector<BlockUpdate>& CostTable::block_updates(int gradient_bytes) {
  const std::lock_guard lock(updates_mutex_);
  const auto known = updates_.find(gradient_bytes);
  if (known != updates_.end()) return known->second;
  return updates_.emplace(gradient_bytes, weft::block_updates(model_, optimizer_, recipe_.optimizer.groups, gradient_bytes))
      .first->second;
}

void CostTable::check(const Recipe& recipe) const {
  if (recipe.model == recipe_.model && recipe.data == recipe_.data && recipe.optimizer == recipe_.optimizer &&
      planned_device(recipe) == device_) {
    return;
  }
  throw InputError(
      fmt::format("{}: costs of another recipe ({}); a table holds the costs of one model, data, optimizer and kind of device",
                  recipe.path, recipe_.path));
}

}  // namespace weft
