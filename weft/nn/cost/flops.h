// flops: floating-point operations of what LibTorch dispatches: matrix products, convolutions, attention; 2 a multiply-add.
// Sources that call this define NDEBUG, as LibTorch was built (RecordFunction has other members without).
#pragma once

#include <ATen/core/Tensor.h>

namespace at {
struct RecordFunction;
}

namespace weft {

/// Operations of a call that its inputs tell; 0 for what is not counted.
double flops_of(const at::RecordFunction& call);
/// Those of a convolution, which its output tells too.
double convolution_flops(const at::Tensor& output, const at::Tensor& weight);

}  // namespace weft
