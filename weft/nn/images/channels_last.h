// channels_last: the memory order of images for convolutions.
//
// The fastest convolution kernels take an image pixel by pixel, with each pixel's channels contiguous. LibTorch also passes
// channel-by-channel images to oneDNN, but then each call starts by reordering its inputs for the kernel and ends by reordering
// its outputs (docs/vision.md). So convolutions convert their input once, and later layers keep the order they are given.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Returns whether this processor convolves x [n, channels, height, width] faster with each pixel's channels contiguous: with
/// AVX-512 and oneDNN, float32 and bfloat16. The meta device follows the CPU.
bool is_better_channels_last(const at::Tensor& x);

/// Returns x in channels-last order if that is faster, copied if necessary; otherwise x itself.
at::Tensor channels_last(const at::Tensor& x);

/// Returns whether x is [n, channels, height, width] with each pixel's channels contiguous, and not a plain matrix.
bool is_channels_last(const at::Tensor& x);

}  // namespace weft
