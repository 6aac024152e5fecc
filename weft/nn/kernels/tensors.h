// Checks of tensors for the kernels of this folder.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Returns whether kernels can process these tensors together: contiguous, of one size and type, float32 or bfloat16, on a
/// device that has them (kernel_table.h).
bool fits_kernels(std::initializer_list<at::Tensor> tensors);

/// Returns whether device kernels can (has_device_kernel()): contiguous, of one size, type and device.
bool fit_device_kernels(std::initializer_list<at::Tensor> tensors);

/// The element type of x, which must be one that kernels support.
Element element_of(const at::Tensor& x);

}  // namespace weft
