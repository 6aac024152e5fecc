// The part of a step that moves state between tiers.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <utility>

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

/// The block before has no need of the values that it handed on: a backward starts from the ends of its graph.
void Engine::Run::evict_activation(int block, InFlight& flight) {
  flight.outputs[block - 1].clear();
  std::vector<Evicted>& evicted = flight.evicted[block];
  for (const at::Tensor& input : flight.inputs[block]) {
    evicted.push_back({input.sizes().vec(), input.options(), input.requires_grad()});
  }
  for (size_t i = 0; i < flight.inputs[block].size(); ++i) {
    const at::Tensor input = flight.inputs[block][i];
    if (input.defined()) evict_memory(block, input, flight);
  }
}

/// A block that hands on a view of its input (Flatten, say) makes one memory of two inputs, which goes with the last of them.
/// Where anything else holds it too, such as the graph of a block that is not computed again, moving it would free nothing, and
/// it stays.
void Engine::Run::evict_memory(int block, const at::Tensor& input, InFlight& flight) {
  std::vector<std::pair<at::Tensor*, Evicted*>> sharers;
  size_t found = 1;
  for (int b = block; found > 0 && flight.evicted.count(b) > 0; --b) {  // a view of a view: from block to block
    found = sharers.size();
    std::vector<Evicted>& evicted = flight.evicted[b];
    for (size_t i = 0; i < evicted.size(); ++i) {
      at::Tensor& other = flight.inputs[b][i];
      if (other.defined() && other.is_alias_of(input)) sharers.emplace_back(&other, &evicted[i]);
    }
    found = sharers.size() - found;
  }
  if (input.storage().use_count() > sharers.size()) return;
  Tier& tier = *options_.tiers.activations;
  const auto bytes = static_cast<int64_t>(input.nbytes());
  const auto is_same = [&input](const at::Tensor& other) {
    return other.is_contiguous() && input.is_contiguous() && other.data_ptr() == input.data_ptr() &&
           other.nbytes() == input.nbytes();
  };
  const auto place = std::make_shared<TierPlace>(tier, bytes);
  tier.put(place->number(), input.contiguous());
  for (auto& [other, evicted] : sharers) {
    evicted->place = is_same(*other) ? place : std::make_shared<TierPlace>(tier, static_cast<int64_t>(other->nbytes()));
    if (evicted->place != place) tier.put(evicted->place->number(), other->contiguous());
    other->reset();
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
