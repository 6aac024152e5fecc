// Differences between a checkpoint and a trainer, in both directions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/checkpoint/format/index.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

/// Differing tensors and options.
struct CheckpointMisfits {
  /// One line each, the model's first; buffers (buffer_misfits()) and an average that starts now are left out.
  std::vector<std::string> lines = {};
  std::string optimizer = {};  ///< how the optimizer differs; empty if it does not, or if the model does
  bool any_weight = false;     ///< the checkpoint has some parameter in its shape
  int64_t num_weights = 0;     ///< number of the model's parameters and statistics
};

CheckpointMisfits checkpoint_misfits(const TrainerState& trainer, const CheckpointIndex& index);

/// Name of a registered state's tensor in a checkpoint.
std::string registered_tensor(const std::string& state, const std::string& tensor);

}  // namespace weft
