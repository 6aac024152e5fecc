#include "weft/train/trainer/finite_state.h"

#include <fmt/format.h>

#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/optim/largest.h"
#include "weft/train/trainer/owned_state.h"

namespace weft {

FiniteState::FiniteState(const FlatModel& model, int64_t steps) : steps_(steps) {
  for (const Param& param : model.params()) {
    if (param.group != ParamGroup::frozen) changed_.insert(model_state_name(param.name));
  }
}

/// Besides the model's, training changes the optimizer's tensors and the average's, but not the caller's.
bool FiniteState::is_changed(const std::string& tensor) const {
  return tensor.starts_with(kModelPrefix) ? changed_.count(tensor) > 0 : !tensor.starts_with("registered/");
}

void FiniteState::look_at(const StatePart& part) {
  if (!error_.empty() || !part.memory.is_floating_point() || !is_changed(part.name)) return;
  for (const StateRun& run : part.runs) {
    if (run.numel > 0 && !is_finite(part.memory.narrow(0, run.memory_begin, run.numel))) return set_error(part.name);
  }
}

void FiniteState::look_at(const std::string& weight, const at::Tensor& value) {
  const std::string name = model_state_name(weight);
  if (error_.empty() && value.numel() > 0 && is_changed(name) && !is_finite(value)) set_error(name);
}

void FiniteState::set_error(const std::string& what) {
  error_ = fmt::format(
      "after step {}: '{}' is not finite; nothing is saved; resume from the last checkpoint with a lower learning rate, or "
      "clip, or check the data",
      steps_, what);
}

}  // namespace weft
