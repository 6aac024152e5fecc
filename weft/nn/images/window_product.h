// window_product: a convolution as one matrix product, of the windows that the filters see with the filters.
//
// A convolution's own kernels want weights in an order of theirs, so each call moves them there, and their gradients back.
// Where there are fewer pixels than filters, at the end of a ResNet, that is most of the work (docs/vision.md); a product takes
// weights as they lie and adds to their gradients in place.
#pragma once

#include "weft/nn/block.h"

namespace weft {

/// Whether a convolution of x with that weight [out, in, k, k] at padding k/2 is better made so: float32 that channels_last()
/// would turn, onto fewer pixels (of all samples) than it has filters. The windows then take less memory than the weight.
bool suits_windows(const at::Tensor& x, const at::Tensor& weight, int64_t stride);

/// The convolution, with the bias [out] where there is one: [n, out, ...], channels last. Makes the windows, [pixels, in k k],
/// for the time of the call, as the other two do. None is differentiable.
at::Tensor window_product(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias, int64_t stride);

/// The gradient of x from that of the output.
at::Tensor window_input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, int64_t stride);

/// Adds the gradients of weight and bias (null: none), as WeightedLayer::add_gradients does.
void add_window_gradients(Parameter& weight, Parameter* bias, const at::Tensor& dy, const at::Tensor& x, int64_t stride);

}  // namespace weft
