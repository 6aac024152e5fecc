// Backward pass of a step, whole or split in two parts, and transfers of activations and gradients between stages.
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/engine/keyed_calls.h"
#include "weft/engine/step_run.h"
#include "weft/nn/flat/flat_uses.h"
#include "weft/nn/graph.h"

namespace weft {

namespace {

std::string describe_message(const Model& model, const Instruction& x) {
  if (x.what == Payload::batch) return fmt::format("micro-batch {}", x.micro);
  if (x.what == Payload::weights) return "weights of " + model.blocks[x.first].name;
  if (x.what == Payload::sum) return "gradients of " + model.blocks[x.first].name;
  return fmt::format("{}output of {}, micro-batch {}", x.what == Payload::gradient ? "gradient of the " : "",
                     model.blocks[x.first].name, x.micro);
}

/// Takes the outputs to run backward from. If the gradient came from another stage, the output sent there has arrived.
Tensors take_outputs(int block, InFlight& flight) {
  const auto sent = flight.sent.find(block);
  if (sent != flight.sent.end()) sent->second.wait();
  return std::exchange(flight.outputs[block], {});
}

}  // namespace

/// Unless ranks exchange which parameters had a gradient, every parameter of the block must have one.
void StepRun::expect_gradients(int block, const Tensors& gradients) const {
  const bool any = std::any_of(gradients.begin(), gradients.end(), [](const at::Tensor& x) { return x.defined(); });
  if (any || !model_.block(block).always_uses_all() || model_.trained(block).empty()) return;
  throw InputError(
      fmt::format("model: no block after '{}', and no loss, has a gradient for its outputs, so its parameters are not trained; "
                  "freeze them (parameter rules, optimizer.groups), or do not detach inputs in the blocks after it",
                  model_.model().blocks[block].name));
}

void StepRun::settle(int block, InFlight& flight) {
  model_.settle_gradients(block, flight.statistics[block]);
  for (int used : program_->block_uses[block]) model_.settle_gradients(used, {});
  flight.statistics[block].reset();
}

void StepRun::backward(int block, int micro) {
  const GradientsOfUse of_use(model_, block);
  InFlight& flight = in_flight_[micro];
  {
    const Tensors outputs = take_outputs(block, flight);
    const GraphEnds ends = std::exchange(flight.ends[block], {});
    const Tensors inputs = std::exchange(flight.inputs[block], {});
    const Tensors gradients = std::exchange(flight.gradients[block], {});
    expect_gradients(block, gradients);
    if (checks) checks->begin_backward(checked_call("backward", block, micro), gradients);
    keyed_call(model_, block, context_of(micro), " backward", [&] { run_backward(ends, gradients); });
    if (block > 0) flight.gradients[block - 1] = take_gradients(inputs);
  }
  settle(block, flight);
  if (checks) checks->end_backward(block > 0 ? flight.gradients[block - 1] : Tensors());
  if (takes_targets(block)) release_target(flight);
  if (block == 0) flight.batch = {};
}

void StepRun::backward_input(int block, int micro) {
  const GradientsOfUse of_use(model_, block);
  InFlight& flight = in_flight_[micro];
  std::vector<Parameter*> parameters = model_.trained(block);
  for (int used : program_->block_uses[block]) {
    const std::vector<Parameter*> more = model_.trained(used);
    parameters.insert(parameters.end(), more.begin(), more.end());
  }
  const Tensors outputs = take_outputs(block, flight);
  const GraphEnds ends = std::exchange(flight.ends[block], {});
  const Tensors inputs = std::exchange(flight.inputs[block], {});
  const Tensors gradients = std::exchange(flight.gradients[block], {});
  expect_gradients(block, gradients);
  if (checks) checks->begin_backward(checked_call("backward", block, micro), gradients);
  keyed_call(model_, block, context_of(micro), " backward",
             [&] { flight.deferred[block] = run_backward_input(parameters, ends, gradients); });
  if (block > 0) flight.gradients[block - 1] = take_gradients(inputs);
  if (checks) checks->end_backward(block > 0 ? flight.gradients[block - 1] : Tensors());
  if (block == 0)
    flight.batch = {.inputs = {}, .target = {}, .upload = std::move(flight.batch.upload)};  // for the deferred part
}

void StepRun::backward_weight(int block, int micro) {
  const GradientsOfUse of_use(model_, block);
  InFlight& flight = in_flight_[micro];
  if (checks) checks->begin_backward(checked_call("backward", block, micro), {});
  keyed_call(model_, block, context_of(micro), " backward of weights", [&] { flight.deferred[block].run(); });
  flight.deferred.erase(block);
  settle(block, flight);
  if (checks) checks->end_backward({});
  if (block == 0) flight.batch = {};
}

Work StepRun::send(const Instruction& x) {
  const std::string what = describe_message(model_.model(), x);
  if (x.what == Payload::weights) return transfers.send_known(x.peer, weights.whole(x.first), what);
  if (x.what == Payload::sum) return transfers.send_known(x.peer, {model_.flat(x.first).all_gradients}, what);
  InFlight& flight = in_flight_[x.micro];
  if (x.what == Payload::batch) return transfers.send_batch(x.peer, std::exchange(flight.batch.inputs, {}), what);
  if (checks) checks->sent(x.what == Payload::gradient ? flight.gradients[x.first] : flight.outputs[x.first]);
  if (x.what == Payload::gradient) {
    if (x.first + 1 == model_.num_blocks()) flight.outputs.back().clear();  // output of another rank; only its loss ran here
    return transfers.send_gradient(x.peer, x.first, std::exchange(flight.gradients[x.first], {}), what);
  }
  return flight.sent[x.first] = transfers.send_activation(x.peer, x.first, flight.outputs[x.first], what);
}

/// Waits immediately, so that only one block's gradients are in flight.
void StepRun::receive_sum(const Instruction& x, const std::string& what) {
  c10::NoGradGuard no_grad;
  const at::Tensor& all = model_.flat(x.first).all_gradients;
  const at::Tensor sum = at::empty_like(all);
  transfers.receive_known(x.peer, {sum}, what).wait();
  all.add_(sum);
}

Work StepRun::receive(const Instruction& x) {
  const std::string what = describe_message(model_.model(), x);
  if (x.what == Payload::weights) return transfers.receive_known(x.peer, weights.whole(x.first), what);
  if (x.what == Payload::sum) {
    receive_sum(x, what);
    return {};
  }
  InFlight& flight = in_flight_[x.micro];
  if (x.what == Payload::batch) return transfers.receive_batch(x.peer, flight.batch.inputs, what);
  if (x.what == Payload::activation) {
    const bool is_last = x.first + 1 == model_.num_blocks();
    return transfers.receive_activation(x.peer, x.first, is_last ? flight.outputs.back() : flight.inputs[x.first + 1], what);
  }
  return transfers.receive_gradient(x.peer, x.first, flight.gradients[x.first], what);
}

}  // namespace weft
