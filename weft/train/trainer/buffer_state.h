// The buffers of a trainer's model in a checkpoint: "model/NAME" in their own type, beside parameters and statistics, whose
// functions are owned_state.h's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/checkpoint/format/data_reader.h"
#include "weft/checkpoint/format/index.h"
#include "weft/checkpoint/format/state_part.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/train/trainer/owned_state.h"

namespace weft {

/// Visits what this rank writes of the buffers that it holds: ranks that hold the same write a share of each.
void for_each_written_buffer(const FlatModel& model, const WriteShare& share,
                             const std::function<void(const StatePart&)>& visit);

/// What of the model's buffers a checkpoint does not have as they are.
struct BufferMisfits {
  std::vector<std::string> lines = {};  ///< a line each
  std::vector<std::string> older =
      {};  ///< names of those that it cannot have: it is of a time when only float32 ones were saved
};
/// Compares names, shapes and types.
BufferMisfits buffer_misfits(const FlatModel& model, const CheckpointIndex& index);

/// The entry of the index that tells what buffers there are, JSON: {"1.mask": "constant", "1.num_batches_tracked": "count"}.
std::string buffers_text(const FlatModel& model);

/// Fills the buffers that this rank holds with those of the checkpoint that fit.
void fill_buffers(const FlatModel& model, const CheckpointIndex& index, DataReader& reader);

}  // namespace weft
