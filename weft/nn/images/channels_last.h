// channels_last: in which order the pixels of images lie in memory where they are convolved.
//
// A convolution's fastest kernels take an image pixel by pixel, the channels of each side by side. LibTorch hands oneDNN what
// lies channel by channel too, but then each call begins by moving its inputs to where the kernel wants them and ends by moving
// the outputs back (docs/vision.md). So convolutions turn their input once; layers after them keep the order that they are
// given.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Whether this processor convolves x [n, channels, height, width] faster with each pixel's channels side by side: with AVX-512
/// and oneDNN, float32 and bfloat16. On the meta device as on the CPU.
bool is_better_channels_last(const at::Tensor& x);

/// x so where that is faster, a copy if it must be; else x itself.
at::Tensor channels_last(const at::Tensor& x);

/// Whether x is [n, channels, height, width] with each pixel's channels side by side, and so no plain matrix.
bool lies_channels_last(const at::Tensor& x);

}  // namespace weft
