// Buffers of a model's blocks: tensors that forward reads in addition to parameters and statistics, whole on every rank that
// holds the block (nn/flat/flat_model.h moves them and shares rank 0's values).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/model.h"

namespace weft {

/// A buffer at its position in a model.
struct ModelBuffer {
  std::string name;                  ///< full dotted name
  std::vector<int64_t> shape;        ///< shape of the value
  at::ScalarType type = at::kFloat;  ///< element type
  int block = 0;                     ///< the block that owns it
  bool counts = false;               ///< BufferSpec::counts
  bool saved = true;                 ///< BufferSpec::saved
  at::Tensor value;                  ///< the block's tensor; without elements if another rank holds the block
};

/// The buffers of all blocks, block by block. Throws InputError for a buffer without plain values: a sparse or quantized
/// tensor, or one on the meta device.
std::vector<ModelBuffer> buffers_of(const Model& model);

/// A contiguous copy of the buffer's values.
at::Tensor values_of(const ModelBuffer& buffer);
/// Sets the buffer's values, given in its type and shape: in place, so that views see them, unless its elements overlap.
void set_values(const ModelBuffer& buffer, const at::Tensor& values);
/// A contiguous tensor as bytes, [bytes] uint8, in the same memory.
at::Tensor as_bytes(const at::Tensor& tensor);

}  // namespace weft
