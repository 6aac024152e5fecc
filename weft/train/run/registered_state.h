// State of a user's own, or of the run around a trainer, that joins its checkpoints under a name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/checkpoint/safetensors.h"

namespace weft {

/// State that saves and loads with a trainer's, alike on all ranks: tensors, or a text, or both.
struct RegisteredState {
  std::vector<NamedTensor> tensors = {};              ///< contiguous; load() fills them in place
  std::function<std::string()> save = {};             ///< a text, of which a JSON object keeps no blanks; called on rank 0
  std::function<void(const std::string&)> load = {};  ///< takes it, on every rank
};

}  // namespace weft
