// linear: a matrix product that adds its weight gradient directly to the flat gradient buffer.
#pragma once

#include <vector>

#include "weft/nn/block.h"
#include "weft/nn/functional/activation.h"
#include "weft/nn/tensor_parallel/layer_over_ranks.h"

namespace weft {

/// Returns x [..., in] times weight.value [out, in] transposed, plus bias.value [out] if given: [..., out]. Its backward
/// overwrites weight.gradient when weight.value.grad() is undefined (and defines it), and adds to it otherwise; a weight that
/// is not bound to a flat buffer gets its gradient the usual way. Honours Parameter::deferred.
at::Tensor linear(const at::Tensor& x, Parameter& weight, Parameter* bias);

/// The same for a layer that may be split over context.tp. Split by columns (dim 0 of the weight), it takes whole rows of x and
/// returns this rank's part of [..., out], or all of it with Split::joined. Split by rows (dim 1), it takes this rank's part of
/// [..., in], or whole rows and selects its part, and returns the sum of the ranks' products plus the whole bias. With
/// sequence_parallel, x (if whole) and the sum are [batch, this rank's tokens, ...]. Throws InputError for an x that is neither
/// whole nor the rank's part.
at::Tensor linear(const LayerInput& x, Parameter& weight, Parameter* bias, const Context& context);

/// The outputs of several layers without bias on the same x, [..., out] each. Equals linear() for each layer; but if all are
/// split by columns, x is communicated once: gathered once with sequence_parallel, and its gradients summed over the ranks
/// once.
Tensors linear_together(const at::Tensor& x, const std::vector<Parameter*>& weights, const Context& context);

/// A LayerCall for layers on the same input, split by columns, or whole in a group of one.
LayerCall by_columns(const std::vector<LinearParameters>& layers, const Context& context);

}  // namespace weft
