// normed_linear: what a branch of a residual network begins with, as one operation of autograd: the stream, with what the last
// branch adds to it; a norm of it; and the linear layers behind that. It keeps the stream and two numbers a row for backward;
// the norm's output, which the layers' weight gradients need, costs less to make again than to keep, and the stream's gradients
// meet inside.
#pragma once

#include <vector>

#include "weft/nn/block.h"
#include "weft/nn/functional/weighted_layer.h"

namespace weft {

/// The stream that goes on past a branch, and what its first layers give.
struct Branch {
  at::Tensor stream;  ///< like x
  Tensors outputs;    ///< of the layers, in their order
};

/// stream = x + added, of x alone where `added` is undefined, [batch, tokens, width] both; outputs = linear(norm(stream)) of
/// each layer. The layers may be split (nn/layers/linear.h); where several are, all are split alike. Layers in pieces, joined
/// ones, and those whose gradients have no places, are run as operations by themselves.
Branch normed_linear(const at::Tensor& x, const at::Tensor& added, const NormParameters& norm,
                     const std::vector<LinearParameters>& layers, const Context& context);

}  // namespace weft
