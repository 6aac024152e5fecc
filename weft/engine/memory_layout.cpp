#include "weft/engine/memory_layout.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/strides.h>

#include "weft/nn/graph.h"

namespace weft {

bool MemoryLayout::has_distinct_places() const { return make_tensor(*this, at::kMeta).is_non_overlapping_and_dense(); }

MemoryLayout layout_of(const at::Tensor& tensor) {
  const at::Tensor handed_on = without_gaps({tensor}).front();
  return {handed_on.sizes().vec(), handed_on.strides().vec()};
}

MemoryLayout gradient_layout(const MemoryLayout& layout) {
  if (layout.has_distinct_places()) return layout;
  const c10::DimVector strides = c10::contiguous_strides(layout.sizes);
  return {layout.sizes, {strides.begin(), strides.end()}};
}

at::Tensor make_tensor(const MemoryLayout& layout, const at::TensorOptions& options) {
  return at::empty_strided(layout.sizes, layout.strides, options);
}

at::Tensor places_of(const at::Tensor& tensor, const MemoryLayout& layout) {
  at::Tensor values = tensor.detach();
  if (values.strides() != at::IntArrayRef(layout.strides)) values = make_tensor(layout, values.options()).copy_(values);
  const size_t places = at::detail::computeStorageNbytes(layout.sizes, layout.strides, /*itemsize=*/1);
  return values.as_strided({static_cast<int64_t>(places)}, {1});
}

}  // namespace weft
