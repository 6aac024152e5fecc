#include "weft/engine/memory_layout.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

namespace weft {

namespace {

MemoryLayout row_after_row(std::vector<int64_t> sizes) {
  MemoryLayout layout{std::move(sizes), {}};
  layout.strides.resize(layout.sizes.size());
  int64_t stride = 1;
  for (size_t i = layout.sizes.size(); i-- > 0;) {
    layout.strides[i] = stride;
    stride *= std::max<int64_t>(layout.sizes[i], 1);
  }
  return layout;
}

/// Places from the first element to the last, these included.
int64_t span_of(const MemoryLayout& layout) {
  int64_t span = 1;
  for (size_t i = 0; i < layout.sizes.size(); ++i) span += (layout.sizes[i] - 1) * layout.strides[i];
  return span;
}

/// The same if no two elements share a place, as far as strides in order tell; otherwise -1.
int64_t extent_apart(const MemoryLayout& layout) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride and size of those with several elements
  for (size_t i = 0; i < layout.sizes.size(); ++i) {
    if (layout.sizes[i] > 1) dims.emplace_back(layout.strides[i], layout.sizes[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t extent = 1;
  for (const auto& [stride, size] : dims) {
    if (stride < extent) return -1;
    extent += stride * (size - 1);
  }
  return extent;
}

int64_t numel_of(const MemoryLayout& layout) { return c10::multiply_integers(layout.sizes); }

/// Whether there are places between its elements that none of them has.
bool has_gaps(const MemoryLayout& layout) { return numel_of(layout) > 0 && span_of(layout) > numel_of(layout); }

}  // namespace

bool MemoryLayout::has_own_places() const { return numel_of(*this) == 0 || extent_apart(*this) > 0; }

bool MemoryLayout::is_dense() const { return has_own_places() && !has_gaps(*this); }

MemoryLayout layout_of(const at::Tensor& tensor) {
  MemoryLayout layout{tensor.sizes().vec(), tensor.strides().vec()};
  return has_gaps(layout) && !layout.has_own_places() ? row_after_row(layout.sizes) : layout;
}

MemoryLayout gradient_layout(const MemoryLayout& layout) { return layout.is_dense() ? layout : row_after_row(layout.sizes); }

at::Tensor elements_of(const at::Tensor& tensor, const MemoryLayout& layout) {
  at::Tensor values = tensor.detach();
  if (values.numel() == 0) return values.reshape({0});
  if (has_gaps(layout)) return values.contiguous().view({-1});
  if (values.strides() != at::IntArrayRef(layout.strides)) values = make_tensor(layout, values.options()).copy_(values);
  return values.as_strided({span_of(layout)}, {1});
}

at::Tensor make_tensor(const MemoryLayout& layout, const at::TensorOptions& options) {
  return at::empty_strided(layout.sizes, layout.strides, options);
}

at::Tensor room_for_elements(const at::Tensor& tensor, const MemoryLayout& layout) {
  if (has_gaps(layout) || tensor.numel() == 0) return at::empty({tensor.numel()}, tensor.options());
  return tensor.as_strided({span_of(layout)}, {1});
}

void take_elements(const at::Tensor& tensor, const MemoryLayout& layout, const at::Tensor& room) {
  c10::NoGradGuard no_grad;
  if (has_gaps(layout)) tensor.copy_(room.view(layout.sizes));
}

}  // namespace weft
