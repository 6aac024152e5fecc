#include "weft/nn/kernels/tensors.h"

#include <algorithm>

#include "weft/nn/kernels/kernel_table.h"

namespace weft {

bool fits_kernels(std::initializer_list<at::Tensor> tensors) {
  if (tensors.size() == 0 || !tensors.begin()->defined()) return false;
  const at::Tensor& first = *tensors.begin();
  const at::ScalarType type = first.scalar_type();
  if (type != at::kFloat && type != at::kBFloat16) return false;
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& x) {
    return x.defined() && x.device() == first.device() && has_weft_kernel(ModelOperation::element_wise, x.device()) &&
           x.scalar_type() == type && x.sizes() == first.sizes() && x.is_contiguous();
  });
}

bool fit_device_kernels(std::initializer_list<at::Tensor> tensors) {
  const at::Tensor& first = *tensors.begin();
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& x) {
    return has_device_kernel(ModelOperation::element_wise, x) && x.device() == first.device() &&
           x.scalar_type() == first.scalar_type() && x.sizes() == first.sizes() && x.is_contiguous();
  });
}

Element element_of(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 ? Element::bfloat16 : Element::float32; }

}  // namespace weft
