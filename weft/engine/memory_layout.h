// How the elements of an activation lie in memory, which a copy of it keeps: kernels round by it, so a block that reads a copy
// has the bits of one that reads the tensor itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace weft {

/// Sizes and strides of a tensor without gaps (nn/graph.h): row after row, turned, expanded.
struct MemoryLayout {
  std::vector<int64_t> sizes, strides;
  bool has_own_places() const;  ///< each element has a place of its own
};

/// That of a copy of the tensor.
MemoryLayout layout_of(const at::Tensor& tensor);
/// That of the gradient of a leaf with such a layout, as autograd makes it: the same, or row after row where elements share
/// places.
MemoryLayout gradient_layout(const MemoryLayout& layout);

/// A new tensor of this layout, whose elements are not set.
at::Tensor make_tensor(const MemoryLayout& layout, const at::TensorOptions& options);
/// The places of the tensor's elements, each once, in their order: contiguous, a view if the tensor is of this layout.
/// Otherwise a copy, for which each element must have a place of its own in the layout.
at::Tensor places_of(const at::Tensor& tensor, const MemoryLayout& layout);

}  // namespace weft
