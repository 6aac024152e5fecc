// column_sums: the gradient of a bias.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Sums x [rows, columns] over its rows; returns [columns] of `type`. Float32 and bfloat16 on the CPU use weft's own kernel
/// (nn/kernels/column_sums_kernels.h), which sums in float32 and rounds once; others use LibTorch's.
at::Tensor column_sums(const at::Tensor& x, at::ScalarType type);

/// Writes the same sums to `sums`, [columns] of any type; LibTorch's operators write them without a temporary.
void column_sums_into(const at::Tensor& sums, const at::Tensor& x);

}  // namespace weft
