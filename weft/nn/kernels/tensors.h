// Which tensors the kernels of this folder take.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Whether kernels can go through these as through one: contiguous, of one size and type, float32 or bfloat16, on the CPU; or
/// on the meta device, which stands for it.
bool fits_kernels(std::initializer_list<at::Tensor> tensors);

/// The type of x, which has a kernel's.
Element element_of(const at::Tensor& x);

}  // namespace weft
