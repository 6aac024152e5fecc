// flops: floating-point operations dispatched by LibTorch: matrix products, convolutions, attention; 2 per multiply-add.
// Sources that call this must define NDEBUG, as LibTorch's own build does: without it, RecordFunction has other members.
#pragma once

#include <ATen/core/Tensor.h>

namespace at {
struct RecordFunction;
}

namespace weft {

/// Operations of a call, computed from its inputs; 0 for calls that are not counted.
double flops_of(const at::RecordFunction& call);
/// Operations of a convolution, which also depend on its output.
double convolution_flops(const at::Tensor& output, const at::Tensor& weight);

}  // namespace weft
