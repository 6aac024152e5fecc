#include "weft/engine/memory_layout.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

#include "weft/nn/graph.h"

namespace weft {

namespace {

std::vector<int64_t> row_after_row(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

}  // namespace

bool MemoryLayout::has_own_places() const {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride and size of those with several elements
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] > 1) dims.emplace_back(strides[i], sizes[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t span = 1;
  for (const auto& [stride, size] : dims) {
    if (stride < span) return false;
    span += stride * (size - 1);
  }
  return true;
}

MemoryLayout layout_of(const at::Tensor& tensor) {
  const at::Tensor handed_on = without_gaps({tensor}).front();
  return {handed_on.sizes().vec(), handed_on.strides().vec()};
}

MemoryLayout gradient_layout(const MemoryLayout& layout) {
  return layout.has_own_places() ? layout : MemoryLayout{layout.sizes, row_after_row(layout.sizes)};
}

at::Tensor make_tensor(const MemoryLayout& layout, const at::TensorOptions& options) {
  return at::empty_strided(layout.sizes, layout.strides, options);
}

at::Tensor places_of(const at::Tensor& tensor, const MemoryLayout& layout) {
  at::Tensor values = tensor.detach();
  if (values.numel() == 0) return values.reshape({0});
  if (values.strides() != at::IntArrayRef(layout.strides)) values = make_tensor(layout, values.options()).copy_(values);
  int64_t span = 1;
  for (int64_t dim = 0; dim < values.dim(); ++dim) span += (values.size(dim) - 1) * values.stride(dim);
  return values.as_strided({span}, {1});
}

}  // namespace weft
