// convolution: writes its weight gradient directly to its place, and can defer it.
#pragma once

#include <functional>

#include "weft/nn/block.h"

namespace weft {

/// Convolves x [n, in, h, w] with weight.value [out, in, k, k] at a stride of 1 or 2 and padding k/2, and adds bias.value [out]
/// if given: [n, out, ceil(h / stride), ceil(w / stride)] for an odd k; in pieces like apply()
/// (nn/tensor_parallel/layer_over_ranks.h). Handles gradients like linear() (nn/layers/linear.h). Honours Parameter::deferred.
/// Throws InputError for any other stride.
at::Tensor convolution(const at::Tensor& x, Parameter& weight, Parameter* bias, int64_t stride = 1, int64_t pieces = 1);

/// The same for a layer that may be split over context.tp, like linear(). Split by output channels (dim 0 of the weight): takes
/// whole x and returns a part of the channels, or all with Split::joined; all-reduces x's gradient in backward and, if joined,
/// all-gathers the output in forward. Split by input channels (dim 1): takes a part of x's channels, or all and selects its
/// part, and returns the sum of the ranks' outputs, an all-reduce in forward.
at::Tensor convolution(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context, int64_t stride = 1);

/// A convolution of x with this rank's part of the weight; adds the bias if there is one.
using Convolve = std::function<at::Tensor(const at::Tensor& x, Parameter* bias)>;
/// The same for any ungrouped convolution whose weight is split. Throws InputError for channels that do not fit.
at::Tensor split_convolution(const at::Tensor& x, const Parameter& weight, Parameter* bias, const Context& context,
                             const Convolve& convolve);

}  // namespace weft
