#include "weft/train/trainer/taken_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/printable.h"
#include "weft/optim/state_meaning.h"
#include "weft/train/trainer/owned_state.h"

namespace weft {

namespace {

/// First components of tensor names: "exp_avg".
std::vector<std::string> states_in(const CheckpointIndex& index) {
  std::set<std::string> names;
  for (const auto& [tensor, stored] : index.tensors) names.insert(tensor.substr(0, tensor.find('/')));
  return {names.begin(), names.end()};
}

}  // namespace

TakenState::TakenState(const FlatModel& model, const Optimizer& optimizer, const OptimizerOptions& options,
                       const CheckpointIndex& index, std::map<std::string, std::string> meanings)
    : index_(index) {
  if (meanings.empty()) meanings = meanings_of_names(states_in(index));
  compare_meanings(options, meanings);
  for (int i = 0; i < static_cast<int>(model.params().size()); ++i) {
    const Param& param = model.params()[i];
    if (is_trained(param.group)) choose(param, i, optimizer.state_tensors(i), has_ages(options));
  }
}

void TakenState::compare_meanings(const OptimizerOptions& options, const std::map<std::string, std::string>& meanings) {
  for (const auto& [state, here] : state_meanings(options)) {
    const auto there = meanings.find(state);
    if (there == meanings.end() || there->second == here) continue;
    others_.insert(state);
    lines_.push_back(fmt::format("'{}' of the checkpoint is another optimizer's ({}, not {}); it is reset", state,
                                 shortened(there->second), here));
  }
}

void TakenState::choose(const Param& param, int index, const std::vector<StateTensor>& tensors, bool has_ages) {
  std::vector<std::string> names;
  size_t there = 0;
  for (const StateTensor& state : tensors) {
    names.push_back(state.name + "/" + param.name);
    const auto found = index_.tensors.find(names.back());
    const bool fits = found != index_.tensors.end() && found->second.shape == state.shape && others_.count(state.name) == 0;
    there += fits ? 1 : 0;
    if (!fits) anew_.insert(names.back());
  }
  if (has_ages && there < names.size()) {
    anew_.insert(names.begin(), names.end());
    fresh_.insert(index);
    if (there > 0) {
      lines_.push_back(fmt::format("the checkpoint lacks some optimizer state of '{}', which is reset", param.name));
    }
    return;
  }
  const std::string age = age_state_name(param.name);
  if (has_ages && index_.tensors.count(age) > 0) ages_.insert(age);
}

}  // namespace weft
