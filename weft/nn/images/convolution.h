// convolution: whose weight gradient goes straight to where it is kept, and can be put off.
#pragma once

#include <functional>

#include "weft/nn/block.h"

namespace weft {

/// Convolves x [n, in, h, w] with weight.value [out, in, k, k] at a stride of 1 or 2 and padding k/2, and adds bias.value [out]
/// where given: [n, out, ceil(h / stride), ceil(w / stride)] for an odd k; in pieces as apply() does
/// (nn/tensor_parallel/layer_over_ranks.h). Gradients as linear() (nn/layers/linear.h). Heeds Parameter::deferred. Throws
/// InputError for another stride.
at::Tensor convolution(const at::Tensor& x, Parameter& weight, Parameter* bias, int64_t stride = 1, int64_t pieces = 1);

/// The same of a layer that may be split over context.tp, as linear() is. By output channels (dim 0 of the weight): takes whole
/// x, gives its part of the channels, or all of them where Split::joined; an all-reduce of x's gradient backward, and, joined,
/// an all-gather of the output forward. By input channels (dim 1): takes its part of x's channels, or all of which it takes its
/// part, and gives the sum of the ranks' outputs; an all-reduce of the output forward.
at::Tensor convolution(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context, int64_t stride = 1);

/// A convolution of x, with this rank's part of the weight; it adds the bias where there is one.
using Convolve = std::function<at::Tensor(const at::Tensor& x, Parameter* bias)>;
/// The same of any convolution in one group, whose weight is split. Throws InputError for channels that do not fit.
at::Tensor split_convolution(const at::Tensor& x, const Parameter& weight, Parameter* bias, const Context& context,
                             const Convolve& convolve);

}  // namespace weft
