// The part of a step that moves state between tiers.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "weft/engine/run.h"

namespace weft {

void Engine::Run::evict(const Instruction& instruction) {
  const int block = instruction.first;
  if (instruction.what == Matter::weights) return weights.evict(block);
  if (instruction.what == Matter::optimizer) {
    std::vector<at::Tensor>& state = updater_.state(block);
    for (size_t i = 0; i < state.size(); ++i) {
      options_.tiers.optimizer->put(optimizer_places_[block][i], state[i]);
      state[i].reset();
    }
    return;
  }
  evict_activation(block, in_flight_[instruction.micro], instruction.micro);
}

void Engine::Run::fetch(const Instruction& instruction) {
  const int block = instruction.first;
  if (instruction.what == Matter::weights) return weights.fetch(block);
  if (instruction.what == Matter::optimizer) {
    std::vector<at::Tensor>& state = updater_.state(block);
    for (size_t i = 0; i < state.size(); ++i) {
      state[i] = at::empty_like(model_.flat(block).master);
      options_.tiers.optimizer->get(optimizer_places_[block][i], state[i]);
    }
    return;
  }
  fetch_activation(block, in_flight_[instruction.micro]);
}

void Engine::Run::evict_activation(int block, InFlight& flight, int micro) {
  Tier& tier = *options_.tiers.activations;
  std::vector<Evicted>& evicted = flight.evicted[block];
  int index = 0;
  for (at::Tensor& input : flight.inputs[block]) {
    const auto [entry, is_new] = activation_places_.try_emplace({block, micro, index++}, Place{});
    Place& place = entry->second;
    const auto bytes = static_cast<int64_t>(input.nbytes());
    if (place.bytes < bytes) place = {tier.reserve(bytes), bytes};
    tier.put(place.number, input.contiguous());
    evicted.push_back({input.sizes().vec(), input.options(), input.requires_grad(), place.number});
    input.reset();
  }
}

void Engine::Run::fetch_activation(int block, InFlight& flight) {
  Tensors& inputs = flight.inputs[block];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Evicted& evicted = flight.evicted[block][i];
    inputs[i] = at::empty(evicted.sizes, evicted.options);
    options_.tiers.activations->get(evicted.place, inputs[i]);
    inputs[i].requires_grad_(evicted.requires_grad);
  }
  flight.evicted.erase(block);
}

}  // namespace weft
