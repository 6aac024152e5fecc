// matmul: matrix products in float32 on the fastest kernel that LibTorch has for the processor.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// x [..., n] as a matrix [rows, n].
at::Tensor as_rows(const at::Tensor& x);

/// Returns whether the product a b goes to oneDNN, whose kernels suit the processor at hand, instead of MKL. LibTorch uses MKL
/// for float32, but MKL uses AVX-512 only on Intel processors: a Zen 5 core reaches about 100 GFLOP/s with MKL and 160 to 240
/// with oneDNN (bench/matmul). Small products stay with MKL, as oneDNN's call (12 us) would cost more than the product.
bool uses_onednn(const at::Tensor& a, const at::Tensor& b);

/// out = a b: a [m, k], b [k, n], out [m, n], of one type on one device; a and b may be transposed views. Not differentiable.
void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b);
/// out += a b, for tensors as in multiply(). Not differentiable.
void multiply_add(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

/// x w^T + bias, [..., out]: x [..., in], w [out, in], bias [out]. Not differentiable.
at::Tensor multiply_with_bias(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias);

}  // namespace weft
