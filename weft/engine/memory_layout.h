// Memory layout of an activation, kept by its copies: kernels round by layout, so a block gets the same bits from a copy as
// from the tensor itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace weft {

/// Sizes and strides of a tensor without gaps (nn/graph.h): row-major, transposed or expanded.
struct MemoryLayout {
  std::vector<int64_t> sizes, strides;
  bool has_distinct_places() const;  ///< no two elements share memory
};

/// Layout of a copy of the tensor.
MemoryLayout layout_of(const at::Tensor& tensor);
/// Layout that autograd gives the gradient of a leaf with this layout: the same, or row-major if elements share memory.
MemoryLayout gradient_layout(const MemoryLayout& layout);

/// Returns a new tensor of this layout with uninitialised elements.
at::Tensor make_tensor(const MemoryLayout& layout, const at::TensorOptions& options);
/// Returns the tensor's elements in memory order, each once, contiguous: a view if the tensor has this layout, otherwise a
/// copy, for which no two elements of the layout may share memory.
at::Tensor places_of(const at::Tensor& tensor, const MemoryLayout& layout);

}  // namespace weft
