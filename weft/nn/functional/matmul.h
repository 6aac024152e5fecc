// matmul: matrix products in float32 on the fastest kernel that LibTorch has for the processor.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// x [..., n] as [rows, n], which products take.
at::Tensor rows_of(const at::Tensor& x);

/// True when a b goes to oneDNN, whose kernels are made for the processor at hand, and not to MKL, which LibTorch uses for
/// float32 and which knows AVX-512 on Intel's processors only: a core of Zen 5 does about 100 GFLOP/s with it, and 160 to 240
/// with oneDNN (bench/matmul). Small products, where oneDNN's call (12 us) costs more than they do, stay with MKL.
bool goes_to_onednn(const at::Tensor& a, const at::Tensor& b);

/// out = a b: a [m, k], b [k, n], out [m, n], of one type on one device; a and b may be transposed views. Not differentiable.
void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b);
/// out += a b, of tensors as multiply() takes them. Not differentiable.
void multiply_add(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

/// x w^T + bias, [..., out]: x [..., in], w [out, in], bias [out]. Not differentiable.
at::Tensor multiply_with_bias(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias);

}  // namespace weft
