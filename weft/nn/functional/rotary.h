// Rotary position embedding (Su et al. 2021, arXiv:2104.09864): rotates queries and keys by angles that grow with their
// position, so that their products depend only on distances.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Cosines and sines of the angles at some positions, [tokens, head width / 2] each; the same for every head and layer.
struct Rotation {
  at::Tensor cos;  ///< of position x theta^(-2 i / head width), i the column
  at::Tensor sin;  ///< of the same angles
};

/// The rotation at `positions`, int64 [tokens]: any part of a sequence, in any order. Angles are computed in float32, then
/// converted to `dtype`. Throws InputError for an odd head width.
Rotation rotation_at(const at::Tensor& positions, int64_t head_width, double theta, at::ScalarType dtype);

/// Selects from `table`, the rotation at positions 0, 1, 2, ..., a row for each of `places`, int64 [batch, tokens]. Returns
/// [batch, 1, tokens, head width / 2], the same for every head.
Rotation rotation_of_samples(const Rotation& table, const at::Tensor& places);

/// Rotates x [..., tokens, head width]: element i and element i + head width / 2 form a pair, as in Hugging Face's weights (the
/// paper pairs neighbours). Differentiable; keeps only the rotation, and reads x once. Heads on the CPU, [batch, heads, tokens,
/// head width] in float32 or bfloat16, use weft's own kernel (nn/kernels/rotary_kernels.h), which rounds once; on other devices
/// they take one launch (nn/device_kernels/layer_kernels.h) with the same bits.
at::Tensor rotate(const at::Tensor& x, const Rotation& rotation);

}  // namespace weft
