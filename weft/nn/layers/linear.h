// linear: a matrix product whose weight gradient goes straight to where it is kept.
#pragma once

#include <vector>

#include "weft/nn/block.h"
#include "weft/nn/functional/activation.h"
#include "weft/nn/tensor_parallel/layer_over_ranks.h"

namespace weft {

/// Returns x [..., in] times weight.value [out, in] transposed, plus bias.value [out] where given: [..., out].
/// Its backward overwrites weight.gradient when weight.value.grad() is undefined (and defines it), and adds to it otherwise; a
/// weight that is not bound to a flat buffer gets its gradient the usual way. Heeds Parameter::deferred.
at::Tensor linear(const at::Tensor& x, Parameter& weight, Parameter* bias);

/// The same of a layer that may be split over context.tp. A weight that is split along dim 0 (columns of the product) takes
/// whole rows of x and gives its part of [..., out], or all of it where Split::joined; one that is split along dim 1 (rows)
/// takes its part of [..., in], or whole rows of which it takes its part, and gives the sum of the ranks' products, to which
/// the bias, which is whole, is added. With sequence_parallel x, where it is whole, and the sum are [batch, this rank's tokens,
/// ...]. Throws InputError for an x that is neither whole nor the rank's part.
at::Tensor linear(const LayerInput& x, Parameter& weight, Parameter* bias, const Context& context);

/// The outputs of several layers without bias on the same x, [..., out] each: as linear() one after another, but where they are
/// all are split by columns x enters them once (with sequence_parallel it is gathered once), and its gradients are summed over
/// the ranks once.
Tensors linear_together(const at::Tensor& x, const std::vector<Parameter*>& weights, const Context& context);

/// Layers that are split by columns, or whole in a group of one, as what takes their common input.
LayerCall by_columns(const std::vector<LinearParameters>& layers, const Context& context);

}  // namespace weft
