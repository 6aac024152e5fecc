// The buffers of a model's blocks: what forward reads beside parameters and statistics, whole on every rank that holds the
// block (nn/flat/flat_model.h moves them, and shares rank 0's values).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/model.h"

namespace weft {

/// A buffer in its place in a model.
struct ModelBuffer {
  std::string name;                  ///< full dotted name
  std::vector<int64_t> shape;        ///< of it
  at::ScalarType type = at::kFloat;  ///< of its elements
  int block = 0;                     ///< that owns it
  bool counts = false;               ///< BufferSpec::counts
  at::Tensor value;                  ///< the block's; of no elements where another rank holds the block
};

/// Those of all blocks, block by block. Throws InputError for one that has no values of its own in a row: a sparse or quantized
/// tensor, or one on the meta device.
std::vector<ModelBuffer> buffers_of(const Model& model);

/// The buffer's values, contiguous, in memory of their own.
at::Tensor values_of(const ModelBuffer& buffer);
/// Gives the buffer values of its type and shape: in place, so that views of it have them too, where its elements lie apart.
void set_values(const ModelBuffer& buffer, const at::Tensor& values);
/// A contiguous tensor as its bytes, [bytes] uint8, in the same memory.
at::Tensor as_bytes(const at::Tensor& tensor);

}  // namespace weft
