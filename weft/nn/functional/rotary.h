// Rotary position embedding (Su et al. 2021, arXiv:2104.09864): queries and keys turned by angles that grow with their
// position, so that their products depend on distances alone.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Cosines and sines of the angles at some positions, [tokens, head width / 2] each; the same for every head and layer.
struct Rotation {
  at::Tensor cos;  ///< of position x theta^(-2 i / head width), i the column
  at::Tensor sin;  ///< of the same
};

/// The rotation at `positions`, int64 [tokens]: any part of a sequence, in any order. Angles in float32, then of `dtype`. An
/// odd head width is an InputError.
Rotation rotation_at(const at::Tensor& positions, int64_t head_width, double theta, at::ScalarType dtype);

/// The same rows of a rotation at 0, 1, 2, ..., one at each of `places`, int64 [batch, tokens]: [batch, 1, tokens, head width /
/// 2], the same for every head.
Rotation rotation_of_samples(const Rotation& table, const at::Tensor& places);

/// Turns x [..., tokens, head width]: element i and element i + head width / 2 are the two sides of an angle, as in Hugging
/// Face's weights (the paper pairs neighbours). Differentiable; keeps nothing but the rotation, and reads x once. Heads on
/// the CPU, [batch, heads, tokens, head width] in float32 or bfloat16, by a kernel of weft's own (nn/kernels/rotary_kernels.h),
/// which rounds once.
at::Tensor rotate(const at::Tensor& x, const Rotation& rotation);

}  // namespace weft
