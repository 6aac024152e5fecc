// window_product: a convolution as one matrix product of the filters' input windows with the filters.
//
// Convolution kernels use their own weight order, so each call reorders the weights and their gradients. With fewer pixels than
// filters, as at the end of a ResNet, that is most of the work (docs/vision.md). A product takes weights in place and adds to
// their gradients in place.
#pragma once

#include "weft/nn/block.h"

namespace weft {

/// Returns whether a convolution of x with that weight [out, in, k, k] at padding k/2 is faster this way: x is float32 that
/// channels_last() would convert, and has fewer output pixels (of all samples) than filters, so the windows are small.
bool suits_windows(const at::Tensor& x, const at::Tensor& weight, int64_t stride);

/// Returns the convolution, plus the bias [out] if given: [n, out, ...], channels last. This function and the two below make
/// the windows, [pixels, in k k], for the duration of the call; none of them is differentiable.
at::Tensor window_product(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias, int64_t stride);

/// Returns the gradient of x, given that of the output.
at::Tensor window_input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, int64_t stride);

/// Adds the gradients of weight and bias (null: no bias), like WeightedLayer::add_gradients.
void add_window_gradients(Parameter& weight, Parameter* bias, const at::Tensor& dy, const at::Tensor& x, int64_t stride);

}  // namespace weft
