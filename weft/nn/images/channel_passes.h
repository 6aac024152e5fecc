// channel_passes: channel normalisation of every pixel, in as few passes over memory as possible.
//
// All x, y and gradients are [n, channels, height, width] in channels-last order (nn/images/channels_last.h), float32 or
// bfloat16, on the CPU; on the meta device nothing is computed. LibTorch has a separate operator for each step, several of them
// scalar passes. Sums are float64, over chunks whose number depends only on the pixels: threads change no bit.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Returns, per channel, the sums of x's values, then of their squares: [2 channels] float64.
at::Tensor channel_sums(const at::Tensor& x);

/// Returns y = x scale + offset + added; with `relu`, negative values become zero. scale, offset [channels] float32. `added` is
/// like x, or undefined.
at::Tensor scale_channels(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& offset, const at::Tensor& added,
                          bool relu);

/// Inputs of the gradient of a normalised x. g below is dy, or zero where a ReLU's output `y` is zero; y undefined: no ReLU.
struct ChannelGradient {
  at::Tensor dy;    ///< like x
  at::Tensor y;     ///< like x, or undefined
  at::Tensor x;     ///< input of the norm
  at::Tensor mean;  ///< [channels] float32
};

/// Returns the sums of g, then of g (x - mean): [2 channels] float64. If `kept`, which is like x, is defined, writes g to it.
at::Tensor gradient_sums(const ChannelGradient& gradient, const at::Tensor& kept);

/// Writes g scale + (x - mean) slope + offset to `out`, like x. scale, slope and offset are [channels] float32.
void gradient_of_x(const at::Tensor& out, const ChannelGradient& gradient, const at::Tensor& scale, const at::Tensor& slope,
                   const at::Tensor& offset);

}  // namespace weft
