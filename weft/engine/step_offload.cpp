// Offload and reload of state during a step.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <utility>

#include "weft/engine/step_run.h"
#include "weft/nn/host_values.h"

namespace weft {

void StepRun::offload(const Instruction& instruction) {
  const int block = instruction.first;
  if (instruction.what == Payload::weights) return weights.offload(block);
  if (instruction.what == Payload::optimizer) return offload_optimizer(block, /*changed=*/true);
  offload_input(block, in_flight_[instruction.micro]);
}

Work StepRun::reload(const Instruction& instruction) {
  const int block = instruction.first;
  if (instruction.what == Payload::weights) return weights.reload(block);
  if (instruction.what == Payload::optimizer) return reload_optimizer(block);
  return reload_input(block, in_flight_[instruction.micro]);
}

/// Of a step that failed, the device may still work with what it has reloaded: the stores free that.
StepRun::~StepRun() {
  try {
    for (int b = 0; b < model_.num_blocks() && on_device(); ++b) {
      if (weights.is_offloaded() && !weights.away(b)) weights.drop(b);
      if (offloads_optimizer() && model_.holds(b)) offload_optimizer(b, /*changed=*/false);
    }
  } catch (const std::exception&) {  // of the device, which a call before has reported
  }
}

/// Optimizer state that an update has changed is newer than what is in its store; other state is the same.
void StepRun::put_away() {
  for (int b = 0; b < model_.num_blocks(); ++b) {
    if (!model_.holds(b)) continue;
    if (weights.is_offloaded() && !weights.away(b)) weights.offload(b);
    if (!offloads_optimizer()) continue;
    const std::vector<at::Tensor>& state = updater_.state(b);
    const auto is_here = [](const at::Tensor& x) { return x.defined(); };
    if (std::any_of(state.begin(), state.end(), is_here)) offload_optimizer(b, /*changed=*/true);
  }
}

void StepRun::offload_optimizer(int block, bool changed) {
  OffloadStore& store = *options_.offload.optimizer;
  std::vector<at::Tensor>& state = updater_.state(block);
  for (size_t i = 0; i < state.size(); ++i) {
    if (changed && state[i].defined() && state[i].numel() > 0) store.put(optimizer_buffers_[block][i], state[i]);
    store.retire(std::exchange(state[i], {}));
  }
}

Work StepRun::reload_optimizer(int block) {
  std::vector<at::Tensor>& state = updater_.state(block);
  const std::vector<int64_t> numels = updater_.state_numels(block);
  const at::TensorOptions floats = at::TensorOptions(at::kFloat).device(model_.options().device);
  if (!offloads_optimizer()) {
    for (size_t i = 0; i < state.size(); ++i) {
      if (!state[i].defined()) state[i] = at::zeros({numels[i]}, floats);
    }
    return {};
  }
  OffloadStore& store = *options_.offload.optimizer;
  store.recycle();
  {
    const c10::OptionalStreamGuard arriving(store.arrivals());
    for (size_t i = 0; i < state.size(); ++i) {
      if (state[i].defined()) continue;
      at::Tensor reloaded = at::empty({numels[i]}, floats);
      if (numels[i] > 0) store.get(optimizer_buffers_[block][i], reloaded);
      state[i] = std::move(reloaded);  // all of it, or none
    }
  }
  return store.arrived();
}

/// The block before does not need the values that it handed on: its backward starts from the ends of its graph.
void StepRun::offload_input(int block, InFlight& flight) {
  options_.offload.activations->settle();
  flight.outputs[block - 1].clear();
  std::vector<OffloadedInput>& offloaded = flight.offloaded[block];
  for (const at::Tensor& input : flight.inputs[block]) {
    offloaded.push_back({layout_of(input), input.options(), input.requires_grad(), noted_values(input)});
  }
  for (size_t i = 0; i < flight.inputs[block].size(); ++i) {
    const at::Tensor input = flight.inputs[block][i];
    if (input.defined()) offload_memory(block, input, flight);
  }
}

/// A block that returns a view of its input (such as Flatten) makes two inputs share memory, which is freed with the last of
/// them. If something else holds it, such as the graph of a block without recompute, moving would free nothing, so it stays.
void StepRun::offload_memory(int block, const at::Tensor& input, InFlight& flight) {
  std::vector<std::pair<at::Tensor*, OffloadedInput*>> sharers;
  size_t found = 1;
  for (int b = block; found > 0 && flight.offloaded.count(b) > 0; --b) {  // a view of a view: from block to block
    found = sharers.size();
    std::vector<OffloadedInput>& offloaded = flight.offloaded[b];
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
    store.retire(std::exchange(*other, {}));
  }
}

/// In memory of the current stream, on which the block's backward frees it.
Work StepRun::reload_input(int block, InFlight& flight) {
  OffloadStore& store = *options_.offload.activations;
  store.settle();
  Tensors& inputs = flight.inputs[block];
  try {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const OffloadedInput& offloaded = flight.offloaded[block][i];
      if (!offloaded.room) continue;
      inputs[i] = make_tensor(offloaded.layout, offloaded.options);
      store.get(offloaded.room->number(), places_of(inputs[i], offloaded.layout));
      if (offloaded.values.defined()) note_host_values(inputs[i], offloaded.values);
      inputs[i].requires_grad_(offloaded.requires_grad);
    }
  } catch (...) {
    store.arrived().wait();  // the others are freed while their copies may run
    throw;
  }
  flight.offloaded.erase(block);
  return store.arrived();
}

}  // namespace weft
