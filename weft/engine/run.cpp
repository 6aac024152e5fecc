#include "weft/engine/run.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "weft/base/error.h"

namespace weft {

namespace {

/// The same values as new leaves that gradients arrive in; token ids take none.
Tensors detach(const Tensors& tensors) {
  Tensors result;
  result.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    result.push_back(tensor.detach());
    if (tensor.is_floating_point()) result.back().requires_grad_(true);
  }
  return result;
}

/// Runs the graph behind `outputs` from `gradients` on; an output that nothing used, or that has no graph, is left out.
void run_backward(const Tensors& outputs, const Tensors& gradients) {
  Tensors roots, seeds;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad() || !gradients[i].defined()) continue;
    roots.push_back(outputs[i]);
    seeds.push_back(gradients[i]);
  }
  if (!roots.empty()) torch::autograd::backward(roots, seeds);
}

Tensors take_gradients(const Tensors& inputs) {
  Tensors gradients;
  gradients.reserve(inputs.size());
  for (const at::Tensor& input : inputs) gradients.push_back(input.grad());
  return gradients;
}

bool finite(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.is_floating_point() && !tensor.isfinite().all().item<bool>()) return false;
  }
  return true;
}

}  // namespace

Engine::Run::Run(FlatModel& model, Updater& updater, const EngineOptions& options)
    : model_(model), updater_(updater), options_(options), in_flight_(options.micro_batches) {}

void Engine::Run::begin(int64_t step) {
  step_ = step;
  works_.clear();
  result_ = {};
  loss_settled_ = false;
  losses_ = at::zeros({2, options_.all_micro_batches}, at::TensorOptions(at::kDouble));
  for (InFlight& flight : in_flight_) flight = {};
  for (int b = 0; b < model_.num_blocks(); ++b) model_.clear_gradients(b);
}

void Engine::Run::execute(const Instruction& instruction, int index, const Next& next) {
  for (int earlier : instruction.waits) {
    if (earlier < static_cast<int>(works_.size())) works_[earlier].wait();
  }
  works_.resize(index + 1);
  switch (instruction.op) {
    case Op::load:
      return load(instruction.micro, next);
    case Op::forward:
      return forward(instruction.first, instruction.micro);
    case Op::loss:
      return loss(instruction.micro);
    case Op::backward:
      return backward(instruction.first, instruction.micro);
    case Op::combine:
      return combine(instruction);
    case Op::reduce:
      works_[index] = reduce(instruction);
      return;
    case Op::reduce_loss:
      works_[index] = reduce_loss();
      return;
    case Op::norm:
      settle_loss();
      result_.norm = updater_.norm(divisor_);
      return;
    case Op::update:
      settle_loss();
      for (int b = instruction.first; b < instruction.last; ++b) update(b);
      return;
  }
}

StepResult Engine::Run::result() const { return result_; }

void Engine::Run::load(int micro, const Next& next) {
  InFlight& flight = in_flight_[micro];
  flight.batch = next();
  flight.inputs.resize(model_.num_blocks());
  flight.outputs.resize(model_.num_blocks());
}

/// Statistics (BatchNorm) are those of the step's start in every micro-batch; the change each one makes is summed like a
/// gradient.
Tensors Engine::Run::run_block(int block, const Tensors& inputs, const Context& context) {
  FlatBlock& flat = model_.flat(block);
  if (flat.statistics.empty()) return model_.block(block).forward(inputs, context);
  const GroupRange range = flat.groups.back();
  // With a version counter of its own: the graph keeps the statistics for backward but, while training, does not read them.
  at::Tensor statistics = flat.weights.narrow(0, range.begin, range.end - range.begin).variable_data();
  const at::Tensor before = statistics.clone();
  Tensors outputs = model_.block(block).forward(inputs, context);
  c10::NoGradGuard no_grad;
  flat.gradients.narrow(0, range.begin, range.end - range.begin).add_(at::sub(statistics, before));
  statistics.copy_(before);
  return outputs;
}

void Engine::Run::forward(int block, int micro) {
  InFlight& flight = in_flight_[micro];
  flight.inputs[block] = block == 0 ? flight.batch.inputs : detach(flight.outputs[block - 1]);
  const Context context{.seed = options_.seed, .step = step_, .first_sample = flight.batch.first_sample, .training = true};
  flight.outputs[block] = run_block(block, flight.inputs[block], context);
}

void Engine::Run::loss(int micro) {
  InFlight& flight = in_flight_[micro];
  const Tensors inputs = detach(flight.outputs.back());
  const LossValue value = model_.model().loss(inputs, flight.batch.target);
  const double sum = value.sum.item<double>();
  if (!std::isfinite(sum)) report_not_finite(micro, sum);
  nominal_count_ = static_cast<double>(flight.batch.target.numel()) * static_cast<double>(options_.all_micro_batches);
  run_backward({value.sum}, {at::scalar_tensor(1.0 / nominal_count_, value.sum.options())});
  flight.gradients = take_gradients(inputs);
  double* losses = losses_.data_ptr<double>() + options_.first_micro_batch + micro;
  losses[0] = sum;
  losses[options_.all_micro_batches] = static_cast<double>(value.count);
}

void Engine::Run::backward(int block, int micro) {
  InFlight& flight = in_flight_[micro];
  const Tensors outputs = std::move(flight.outputs[block]);
  const Tensors inputs = std::move(flight.inputs[block]);
  const Tensors gradients = std::move(flight.gradients);
  flight.outputs[block].clear();
  flight.inputs[block].clear();
  run_backward(outputs, gradients);
  model_.settle_gradients(block);
  flight.gradients = take_gradients(inputs);
  if (block == 0) flight = {};
}

/// Slot s closes: with t trailing ones in s, the t last partial sums join it, left operand first, as a binary counter carries.
void Engine::Run::combine(const Instruction& instruction) {
  c10::NoGradGuard no_grad;
  at::Tensor gradients = model_.gradients(instruction.first, instruction.last);
  const int64_t begin = model_.flat(instruction.first).offset;
  int level = 0;
  for (; (instruction.slot >> level) & 1; ++level) {
    gradients.add_(stashes_[level].narrow(0, begin, gradients.numel()));
  }
  if (instruction.slot == options_.slots - 1) return;  // the rank's last slot: the sum stays where it is
  if (static_cast<int>(stashes_.size()) <= level) stashes_.resize(level + 1);
  if (!stashes_[level].defined()) {
    stashes_[level] = at::zeros_like(model_.gradients(0, model_.num_blocks()));
  }
  stashes_[level].narrow(0, begin, gradients.numel()).copy_(gradients);
  for (int b = instruction.first; b < instruction.last; ++b) model_.clear_gradients(b);
}

Work Engine::Run::reduce(const Instruction& instruction) {
  const Model& model = model_.model();
  const std::string what =
      instruction.last - instruction.first == 1
          ? fmt::format("gradients of {}", model.blocks[instruction.first].name)
          : fmt::format("gradients of {} to {}", model.blocks[instruction.first].name, model.blocks[instruction.last - 1].name);
  return options_.replicas.all_reduce(model_.gradients(instruction.first, instruction.last), ReduceOp::sum, what);
}

/// Every micro-batch has a place of its own, so the total is summed in one order whatever the number of ranks.
Work Engine::Run::reduce_loss() {
  losses_ = losses_.to(model_.flat(0).weights.device());  // where the group's collectives run
  return options_.replicas.all_reduce(losses_, ReduceOp::sum, "losses");
}

void Engine::Run::settle_loss() {
  if (loss_settled_) return;
  loss_settled_ = true;
  losses_ = losses_.cpu();
  const double* losses = losses_.const_data_ptr<double>();
  double sum = 0.0, count = 0.0;
  for (int64_t j = 0; j < options_.all_micro_batches; ++j) {
    sum += losses[j];
    count += losses[options_.all_micro_batches + j];
  }
  if (count == 0.0)
    throw InputError(fmt::format("step {}: no target counted in the whole global batch; check the data", step_));
  result_.loss = sum / count;
  result_.count = static_cast<int64_t>(count);
  divisor_ = count / nominal_count_;
}

void Engine::Run::update(int block) {
  updater_.update(block, divisor_);
  model_.apply_statistics(block, options_.all_micro_batches);
}

void Engine::Run::report_not_finite(int micro, double loss) const {
  const InFlight& flight = in_flight_[micro];
  const Model& model = model_.model();
  std::string culprit = "the loss itself (every block's output was finite)";
  for (int b = model_.num_blocks() - 1; b >= 0; --b) {
    if (!finite(flight.outputs[b])) culprit = fmt::format("block {}", model.blocks[b].name);
  }
  throw NumericError(fmt::format(
      "step {}, micro-batch {}: the loss is {}; first not finite: {}. Lower the learning rate, clip, or check the data", step_,
      options_.first_micro_batch + micro, loss, culprit));
}

}  // namespace weft
