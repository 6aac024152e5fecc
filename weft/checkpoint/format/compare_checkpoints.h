// What two checkpoints differ in, tensor by tensor; and the mean of several.
#pragma once

#include <string>
#include <vector>

#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/safetensors.h"

namespace weft {

/// A tensor that differs.
struct TensorDifference {
  std::string name;       ///< in the index
  std::string only = {};  ///< "shape [2] and [3]", "only in A", ...: why its values were not compared; empty: they were
  int64_t elements = 0;   ///< that differ
  int64_t numel = 0;      ///< of all
  double largest = 0.0;   ///< difference of two elements
  double scale = 0.0;     ///< the largest absolute value in A
};

/// What came of comparing.
struct CheckpointDifference {
  int64_t tensors = 0;                             ///< of both
  std::vector<TensorDifference> differences = {};  ///< by name
};

/// Whether the tensors, which are contiguous, in host memory and of one shape and type, have the same bytes.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

/// Compares two checkpoints to the bit, a tensor at a time. A NaN is like a NaN.
CheckpointDifference compare_checkpoints(SavedCheckpoint& a, SavedCheckpoint& b);

/// The mean of the checkpoints' weights, in float32, summed in float64 (Polyak and Juditsky 1992). Buffers stay as they are, of
/// counts the largest. Throws InputError where the checkpoints have other tensors, shapes or types, or a constant buffer with
/// other values.
std::vector<NamedTensor> average_weights(std::vector<SavedCheckpoint>& checkpoints);

/// The weights of a checkpoint, under their names in the model.
std::vector<NamedTensor> read_weights(SavedCheckpoint& checkpoint);
/// The average of the weights that its run kept; of frozen ones themselves. Throws InputError where it kept none.
std::vector<NamedTensor> read_average(SavedCheckpoint& checkpoint);

}  // namespace weft
