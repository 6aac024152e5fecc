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
  evict_activation(block, in_flight_[instruction.micro]);
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

/// The block before has no need of the values that it handed on: a backward starts from the ends of its graph. Where that graph
/// keeps them itself, moving them would free nothing, and they stay.
void Engine::Run::evict_activation(int block, InFlight& flight) {
  Tier& tier = *options_.tiers.activations;
  std::vector<Evicted>& evicted = flight.evicted[block];
  flight.outputs[block - 1].clear();
  for (at::Tensor& input : flight.inputs[block]) {
    evicted.push_back({input.sizes().vec(), input.options(), input.requires_grad()});
    if (input.storage().use_count() > 1) continue;
    evicted.back().place.emplace(tier, static_cast<int64_t>(input.nbytes()));
    tier.put(evicted.back().place->number(), input.contiguous());
    input.reset();
  }
}

void Engine::Run::fetch_activation(int block, InFlight& flight) {
  Tensors& inputs = flight.inputs[block];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Evicted& evicted = flight.evicted[block][i];
    if (!evicted.place) continue;
    inputs[i] = at::empty(evicted.sizes, evicted.options);
    options_.tiers.activations->get(evicted.place->number(), inputs[i]);
    inputs[i].requires_grad_(evicted.requires_grad);
  }
  flight.evicted.erase(block);
}

}  // namespace weft
