// How the elements of an activation lie in memory, which a copy of it keeps: kernels round by it, so a block that reads a copy
// has the bits of one that reads the tensor itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace weft {

/// Sizes and strides of a tensor.
struct MemoryLayout {
  std::vector<int64_t> sizes, strides;
  bool has_own_places() const;  ///< each element has a place of its own
  bool is_dense() const;        ///< and there are no others between them
};

/// That of a copy: the tensor's own, unless it has gaps and elements that share places too; then row after row.
MemoryLayout layout_of(const at::Tensor& tensor);
/// That of the gradient of a leaf with such a layout, as autograd makes it: the same, or row after row where it is not dense.
MemoryLayout gradient_layout(const MemoryLayout& layout);

/// What a copy of such a layout is made from, contiguous: the places from the first element to the last, each once; with gaps
/// between them the elements, row after row. A view where the tensor is laid out so; otherwise its elements must have places
/// of their own in the layout.
at::Tensor elements_of(const at::Tensor& tensor, const MemoryLayout& layout);
/// A new tensor of this layout, whose elements are not set.
at::Tensor make_tensor(const MemoryLayout& layout, const at::TensorOptions& options);
/// What elements_of() are written into: a view of the tensor, or, with gaps, a tensor of its own for take_elements().
at::Tensor room_for_elements(const at::Tensor& tensor, const MemoryLayout& layout);
/// Fills the tensor with what is in its room; nothing is left to do where that is a view.
void take_elements(const at::Tensor& tensor, const MemoryLayout& layout, const at::Tensor& room);

}  // namespace weft
