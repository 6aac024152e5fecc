// Offload and reload of state during a step.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "weft/engine/step_run.h"

namespace weft {

void StepRun::offload(const Instruction& instruction) {
  const int block = instruction.first;
  if (instruction.what == Payload::weights) return weights.offload(block);
  if (instruction.what == Payload::optimizer) return offload_optimizer(block, /*changed=*/true);
  offload_input(block, in_flight_[instruction.micro]);
}

void StepRun::reload(const Instruction& instruction) {
  const int block = instruction.first;
  if (instruction.what == Payload::weights) return weights.reload(block);
  if (instruction.what == Payload::optimizer) return reload_optimizer(block);
  reload_input(block, in_flight_[instruction.micro]);
}

void StepRun::offload_optimizer(int block, bool changed) {
  std::vector<at::Tensor>& state = updater_.state(block);
  for (size_t i = 0; i < state.size(); ++i) {
    if (changed && state[i].numel() > 0) options_.offload.optimizer->put(optimizer_buffers_[block][i], state[i]);
    state[i].reset();
  }
}

void StepRun::reload_optimizer(int block) {
  std::vector<at::Tensor>& state = updater_.state(block);
  const std::vector<int64_t> numels = updater_.state_numels(block);
  const at::TensorOptions floats = at::TensorOptions(at::kFloat).device(model_.options().device);
  for (size_t i = 0; i < state.size(); ++i) {
    if (state[i].defined()) continue;
    state[i] = offloads_optimizer() ? at::empty({numels[i]}, floats) : at::zeros({numels[i]}, floats);
    if (offloads_optimizer() && numels[i] > 0) options_.offload.optimizer->get(optimizer_buffers_[block][i], state[i]);
  }
}

/// The block before does not need the values that it handed on: its backward starts from the ends of its graph.
void StepRun::offload_input(int block, InFlight& flight) {
  flight.outputs[block - 1].clear();
  std::vector<Offloaded>& offloaded = flight.offloaded[block];
  for (const at::Tensor& input : flight.inputs[block]) {
    offloaded.push_back({layout_of(input), input.options(), input.requires_grad()});
  }
  for (size_t i = 0; i < flight.inputs[block].size(); ++i) {
    const at::Tensor input = flight.inputs[block][i];
    if (input.defined()) offload_memory(block, input, flight);
  }
}

/// A block that returns a view of its input (such as Flatten) makes two inputs share memory, which is freed with the last of
/// them. If something else holds it, such as the graph of a block without recompute, moving would free nothing, so it stays.
void StepRun::offload_memory(int block, const at::Tensor& input, InFlight& flight) {
  std::vector<std::pair<at::Tensor*, Offloaded*>> sharers;
  size_t found = 1;
  for (int b = block; found > 0 && flight.offloaded.count(b) > 0; --b) {  // a view of a view: from block to block
    found = sharers.size();
    std::vector<Offloaded>& offloaded = flight.offloaded[b];
    for (size_t i = 0; i < offloaded.size(); ++i) {
      at::Tensor& other = flight.inputs[b][i];
      if (other.defined() && other.is_alias_of(input)) sharers.emplace_back(&other, &offloaded[i]);
    }
    found = sharers.size() - found;
  }
  if (input.storage().use_count() > sharers.size()) return;
  OffloadStore& store = *options_.offload.activations;
  const auto is_same = [&input](const at::Tensor& other) {  // same memory, whatever the shapes
    return other.data_ptr() == input.data_ptr() && other.nbytes() == input.nbytes() && layout_of(other).has_distinct_places() &&
           layout_of(input).has_distinct_places();
  };
  std::shared_ptr<OffloadBuffer> room;
  for (auto& [other, offloaded] : sharers) {
    const bool same = is_same(*other), is_new = !same || !room;
    offloaded->room = is_new ? std::make_shared<OffloadBuffer>(store, static_cast<int64_t>(other->nbytes())) : room;
    if (same) room = offloaded->room;
    if (is_new) store.put(offloaded->room->number(), places_of(*other, offloaded->layout));
    other->reset();
  }
}

void StepRun::reload_input(int block, InFlight& flight) {
  Tensors& inputs = flight.inputs[block];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Offloaded& offloaded = flight.offloaded[block][i];
    if (!offloaded.room) continue;
    inputs[i] = make_tensor(offloaded.layout, offloaded.options);
    options_.offload.activations->get(offloaded.room->number(), places_of(inputs[i], offloaded.layout));
    inputs[i].requires_grad_(offloaded.requires_grad);
  }
  flight.offloaded.erase(block);
}

}  // namespace weft
