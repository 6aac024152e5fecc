// channel_passes: what normalising channels does to every pixel, in as few passes over memory as it takes.
//
// All x, y and gradients are [n, channels, height, width] that lie channels-last (nn/images/channels_last.h), float32 or
// bfloat16, on the CPU; on the meta device nothing is computed. LibTorch has each step as an operator of its own, several of
// them passes of one element at a time. Sums are made in float64, of chunks whose number depends on the pixels alone, so
// threads change no bit.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// The sums of x's values, then of their squares: [2 channels] float64.
at::Tensor channel_sums(const at::Tensor& x);

/// y = x scale + offset + added, or zero where that is negative and `relu`; scale, offset [channels] float32. `added` is like
/// x, or undefined.
at::Tensor scale_channels(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& offset, const at::Tensor& added,
                          bool relu);

/// What comes back to a normalised x. g below is dy, or zero where a ReLU's output `y` is zero; y undefined: there was none.
struct ChannelGradient {
  at::Tensor dy;    ///< like x
  at::Tensor y;     ///< like x, or undefined
  at::Tensor x;     ///< as it went in
  at::Tensor mean;  ///< [channels] float32
};

/// The sums of g, then of g (x - mean): [2 channels] float64. Writes g to `kept`, which is like x, where that is defined.
at::Tensor gradient_sums(const ChannelGradient& gradient, const at::Tensor& kept);

/// g scale + (x - mean) slope + offset, like x; each [channels] float32. Written to `out`.
void gradient_of_x(const at::Tensor& out, const ChannelGradient& gradient, const at::Tensor& scale, const at::Tensor& slope,
                   const at::Tensor& offset);

}  // namespace weft
