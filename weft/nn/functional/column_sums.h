// column_sums: what the gradient of a bias is.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// The sum over the rows of x [rows, columns]: [columns], of `type`. On the CPU in float32 and bfloat16 by a kernel of weft's
/// own (nn/kernels/column_sums_kernels.h), in float32 and rounded once, elsewhere by LibTorch's.
at::Tensor column_sums(const at::Tensor& x, at::ScalarType type);

}  // namespace weft
