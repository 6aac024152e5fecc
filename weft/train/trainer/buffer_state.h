// The buffers of a trainer's model in a checkpoint: "model/NAME" in their own type, next to parameters and statistics, which
// owned_state.h handles.
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

/// Visits the parts of its buffers that this rank writes: ranks that hold the same buffers each write a share.
void for_each_written_buffer(const FlatModel& model, const WriteShare& share,
                             const std::function<void(const StatePart&)>& visit);

/// Mismatches between the model's buffers and a checkpoint.
struct BufferMisfits {
  std::vector<std::string> lines = {};  ///< one line each
  std::vector<std::string> older =
      {};  ///< names missing because the checkpoint is from a version that saved only float32 buffers
};
/// Compares names, shapes and types.
BufferMisfits buffer_misfits(const FlatModel& model, const CheckpointIndex& index);

/// The index entry that lists the buffers, JSON: {"1.mask": "constant", "1.num_batches_tracked": "count"}.
std::string buffers_text(const FlatModel& model);

/// Fills this rank's buffers from the checkpoint, as far as they match.
void fill_buffers(const FlatModel& model, const CheckpointIndex& index, DataReader& reader);

}  // namespace weft
