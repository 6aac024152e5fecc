#include "weft/engine/engine.h"

#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include "weft/engine/run.h"

namespace weft {

Engine::Engine(FlatModel& model, const InstructionList& list, Updater& updater, const EngineOptions& options)
    : model_(model), list_(list), updater_(updater), options_(options), run_(std::make_unique<Run>(model, updater, options_)) {}

Engine::~Engine() = default;

StepResult Engine::step(int64_t step, const Next& next) {
  run_->begin(step);
  for (size_t i = 0; i < list_.size(); ++i) run_->execute(list_[i], static_cast<int>(i), next);
  return run_->result();
}

EvaluationResult Engine::evaluate(const std::function<bool(MicroBatch&)>& next) {
  c10::NoGradGuard no_grad;
  const Model& model = model_.model();
  double sum = 0.0;
  int64_t count = 0, hits = 0;
  MicroBatch batch;
  while (next(batch)) {
    Tensors x = batch.inputs;
    for (int b = 0; b < model_.num_blocks(); ++b) x = model_.block(b).forward(x, Context{.training = false});
    const LossValue loss = model.loss(x, batch.target);
    sum += loss.sum.item<double>();
    count += loss.count;
    if (model.hits) hits += model.hits(x, batch.target);
  }
  const auto options = at::TensorOptions(at::kDouble);
  at::Tensor totals = at::tensor({sum, static_cast<double>(count), static_cast<double>(hits)}, options);
  totals = totals.to(model_.flat(0).weights.device());  // where the group's collectives run
  options_.replicas.all_reduce(totals, ReduceOp::sum, "evaluation loss").wait();
  totals = totals.cpu();
  const double* total = totals.const_data_ptr<double>();
  return {total[1] > 0 ? total[0] / total[1] : 0.0, static_cast<int64_t>(total[1]), static_cast<int64_t>(total[2])};
}

}  // namespace weft
