#include "weft/engine/engine.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "weft/engine/memory_ledger.h"
#include "weft/engine/run.h"

namespace weft {

Engine::Engine(FlatModel& model, const Program& program, int rank, Updater& updater, const EngineOptions& options)
    : model_(model),
      program_(program),
      rank_(rank),
      options_(options),
      run_(std::make_unique<Run>(model, program, updater, options_)) {}

Engine::~Engine() = default;

void Engine::initialise() {
  for (int b = 0; b < model_.num_blocks(); ++b) {
    model_.initialise(b, options_.seed);
    if (run_->weights.has_tier()) run_->weights.evict(b);
  }
  const bool keeps_whole = program_.shard_level != ShardLevel::parameters;
  for (int b = 0; b < model_.num_blocks() && keeps_whole; ++b) run_->weights.gather(b).wait();
}

at::Tensor Engine::master_weights(int block) {
  const MemoryScope scope(Category::gathered);
  const bool away = run_->weights.away(block);
  if (away) run_->weights.fetch(block);
  const FlatBlock& flat = model_.flat(block);
  at::Tensor whole = at::zeros({flat.numel}, flat.master.options());
  const std::string what = "weights of " + model_.model().blocks[block].name;
  options_.shards.all_gather(whole, flat.master, what).wait();
  if (away) run_->weights.evict(block);
  return whole;
}

StepResult Engine::step(int64_t step, const Next& next) {
  run_->begin(step);
  const InstructionList& list = program_.of(rank_);
  for (size_t i = 0; i < list.size(); ++i) run_->execute(list[i], static_cast<int>(i), next);
  run_->finish();
  return run_->result();
}

/// Empty inputs take part in the gathers only.
Tensors Engine::forward(int block, const Tensors& inputs) {
  if (program_.shard_level == ShardLevel::parameters) {
    std::vector<int> needed = program_.block_uses[block];
    needed.push_back(block);
    for (int b : needed) {
      const bool away = run_->weights.away(b);
      if (away) run_->weights.fetch(b);
      run_->weights.gather(b).wait();
      if (away) run_->weights.evict(b);
    }
  }
  if (inputs.empty()) return inputs;
  model_.statistics(block);  // brings those up to date that are kept apart
  return model_.block(block).forward(inputs, Context{.training = false});
}

EvaluationResult Engine::evaluate(const std::function<bool(MicroBatch&)>& next) {
  c10::NoGradGuard no_grad;
  const Model& model = model_.model();
  const at::Device device = model_.flat(0).weights.device();
  const bool together = program_.shard_level == ShardLevel::parameters && options_.shards.size() > 1;
  double sum = 0.0;
  int64_t count = 0, hits = 0;
  while (true) {
    MicroBatch batch;
    const bool mine = next(batch);
    bool any = mine;
    if (together) {  // ranks that have run out still gather for those that have not
      at::Tensor more = at::tensor({mine ? 1.0 : 0.0}, at::TensorOptions(at::kDouble)).to(device);
      options_.shards.all_reduce(more, ReduceOp::max, "is there more to evaluate").wait();
      any = more.item<double>() > 0.0;
    }
    if (!any) break;
    Tensors x = batch.inputs;
    for (at::Tensor& input : x) {
      if (input.is_floating_point()) input = input.to(model_.options().weight_dtype);
    }
    for (int b = 0; b < model_.num_blocks(); ++b) x = forward(b, x);
    if (!mine) continue;
    for (at::Tensor& output : x) output = output.to(at::kFloat);
    const LossValue loss = model.loss(x, batch.target);
    sum += loss.sum.item<double>();
    count += loss.count;
    if (model.hits) hits += model.hits(x, batch.target);
  }
  at::Tensor totals = at::tensor({sum, static_cast<double>(count), static_cast<double>(hits)}, at::TensorOptions(at::kDouble));
  totals = totals.to(device);  // where the group's collectives run
  options_.data.all_reduce(totals, ReduceOp::sum, "evaluation loss").wait();
  totals = totals.cpu();
  const double* total = totals.const_data_ptr<double>();
  return {total[1] > 0 ? total[0] / total[1] : 0.0, static_cast<int64_t>(total[1]), static_cast<int64_t>(total[2])};
}

}  // namespace weft
