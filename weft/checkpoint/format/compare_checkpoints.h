// Comparison of two checkpoints, tensor by tensor, and the mean of several.
#pragma once

#include <string>
#include <vector>

#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/safetensors.h"

namespace weft {

/// One tensor that differs.
struct TensorDifference {
  std::string name;       ///< in the index
  std::string only = {};  ///< why values were not compared: "shape [2] and [3]", "only in A"; empty: they were
  int64_t elements = 0;   ///< elements that differ
  int64_t numel = 0;      ///< elements in the tensor
  double largest = 0.0;   ///< largest difference of two elements
  double scale = 0.0;     ///< largest absolute value in A
};

/// Result of a comparison.
struct CheckpointDifference {
  int64_t tensors = 0;                             ///< in either checkpoint
  std::vector<TensorDifference> differences = {};  ///< by name
};

/// True if the two tensors have the same bytes. Both must be contiguous, in host memory and of one shape and type.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

/// Compares two checkpoints bit by bit, one tensor at a time. Two NaNs count as equal.
CheckpointDifference compare_checkpoints(SavedCheckpoint& a, SavedCheckpoint& b);

/// Returns the mean of the checkpoints' weights, in float32, summed in float64 (Polyak and Juditsky 1992). Constant buffers are
/// copied; a count becomes the largest of its values. Throws InputError if the checkpoints have different tensors, shapes or
/// types, or a constant buffer with different values.
std::vector<NamedTensor> average_weights(std::vector<SavedCheckpoint>& checkpoints);

/// Returns the weights of a checkpoint under their names in the model.
std::vector<NamedTensor> read_weights(SavedCheckpoint& checkpoint);
/// Returns the average of the weights that the run kept, and frozen weights unchanged. Throws InputError if it kept none.
std::vector<NamedTensor> read_average(SavedCheckpoint& checkpoint);

}  // namespace weft
