// What of a checkpoint a trainer has no use for, and what it lacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/checkpoint/format/index.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

/// Tensors and options that differ.
struct CheckpointMisfits {
  /// A line each, those of the model first; but for its buffers, which buffer_misfits() tells, and for an average that begins.
  std::vector<std::string> lines = {};
  std::string optimizer = {};  ///< how the optimizer differs, where the model does not; empty: it does not
  bool any_weight = false;     ///< a parameter is there in its shape
  int64_t num_weights = 0;     ///< parameters and statistics of the model
};

CheckpointMisfits checkpoint_misfits(const TrainerState& trainer, const CheckpointIndex& index);

/// The name under which a checkpoint has a tensor of registered state.
std::string registered_tensor(const std::string& state, const std::string& tensor);

}  // namespace weft
