#include "weft/train/trainer/checkpoint_misfits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/model_options.h"
#include "weft/train/trainer/owned_state.h"

namespace weft {
namespace {

constexpr const char* kRegistered = "registered";

/// Returns "exp_avg" for "exp_avg/h.0.weight".
std::string state_of(const std::string& tensor) { return tensor.substr(0, tensor.find('/')); }

bool is_of_model(const std::string& tensor) { return tensor.starts_with(kModelPrefix); }

bool is_of_optimizer(const std::string& tensor) {
  const std::string state = state_of(tensor);
  return !is_of_model(tensor) && state != kAverageState && state != kAgeState && state != kRegistered;
}

/// Options whose values make the checkpoint's model compute differently; older checkpoints do not store options.
std::vector<std::string> other_options(const FlatModel& model, const CheckpointIndex& index) {
  const auto kept = index.texts.find(kModelEntry);
  if (kept == index.texts.end()) return {};
  return option_differences(parse_model_options(kept->second, "the checkpoint"), model.model().options);
}

/// Names of an optimizer's per-parameter states, in words.
template <class Tensors>
std::string optimizer_states(const Tensors& tensors) {
  std::set<std::string> states;
  for (const auto& [name, tensor] : tensors) {
    if (is_of_optimizer(name)) states.insert(fmt::format("'{}'", state_of(name)));
  }
  return states.empty() ? "nothing" : fmt::format("{}", fmt::join(states, ", "));
}

/// Tensors in a checkpoint of this trainer, except buffers.
std::map<std::string, std::vector<int64_t>> due_tensors(const TrainerState& trainer, bool averages) {
  std::map<std::string, std::vector<int64_t>> due = state_shapes(*trainer.model, trainer.updater->optimizer(), averages);
  for (const auto& [name, state] : trainer.registered) {
    for (const NamedTensor& t : state.tensors) due[registered_tensor(name, t.name)] = t.tensor.sizes().vec();
  }
  return due;
}

}  // namespace

std::string registered_tensor(const std::string& state, const std::string& tensor) {
  return fmt::format("{}/{}/{}", kRegistered, state, tensor);
}

CheckpointMisfits checkpoint_misfits(const TrainerState& trainer, const CheckpointIndex& index) {
  const bool averages = has_average(index);
  const bool keeps = trainer.options.average.is_kept();
  const auto due = due_tensors(trainer, averages && keeps);
  CheckpointMisfits misfits{.lines = other_options(*trainer.model, index)};
  std::vector<std::string> others;
  const auto note = [&](const std::string& tensor, std::string line) {
    (is_of_model(tensor) ? misfits.lines : others).push_back(std::move(line));
  };
  for (const auto& [name, shape] : due) {
    const auto found = index.tensors.find(name);
    const bool fits = found != index.tensors.end() && found->second.shape == shape;
    if (is_of_model(name)) {
      ++misfits.num_weights;
      misfits.any_weight = misfits.any_weight || fits;
    }
    if (found == index.tensors.end()) {
      note(name, fmt::format("tensor '{}' is not in the checkpoint", name));
    } else if (!fits) {
      note(name, fmt::format("tensor '{}' is [{}] in the checkpoint, [{}] in the model", name,
                             fmt::join(found->second.shape, ", "), fmt::join(shape, ", ")));
    }
  }
  if (averages && !keeps) {
    others.push_back(
        fmt::format("the checkpoint has an average of the weights ('{}/...'), which is not kept here", kAverageState));
  }
  std::set<std::string> buffers;
  for (const ModelBuffer& buffer : trainer.model->buffers()) buffers.insert(model_state_name(buffer.name));
  for (const auto& [name, stored] : index.tensors) {
    if ((state_of(name) == kAverageState && !keeps) || state_of(name) == kAgeState) continue;
    if (due.count(name) == 0 && buffers.count(name) == 0) {
      note(name, fmt::format("tensor '{}' of the checkpoint is not in the model", name));
    }
  }
  const std::string there = optimizer_states(index.tensors), here = optimizer_states(due);
  if (misfits.lines.empty() && there != here) {
    misfits.optimizer = fmt::format("the optimizer differs: the checkpoint's keeps {} per weight, this one's {}", there, here);
  }
  misfits.lines.insert(misfits.lines.end(), others.begin(), others.end());
  return misfits;
}

}  // namespace weft
