// normed_linear: the start of a branch of a residual network as one autograd operation: the stream plus the previous branch's
// output, the norm of this sum, and the linear layers that follow. Keeps the stream and two numbers per row for backward. The
// norm's output, needed for weight gradients, is recomputed, which is cheaper; the stream's gradients are added inside.
#pragma once

#include <vector>

#include "weft/nn/block.h"
#include "weft/nn/functional/weighted_layer.h"

namespace weft {

/// The stream that bypasses a branch, and the outputs of the branch's first layers.
struct Branch {
  at::Tensor stream;  ///< like x
  Tensors outputs;    ///< outputs of the layers, in order
};

/// stream = x + added, or x alone if `added` is undefined, both [batch, tokens, width]; outputs = linear(norm(stream)) for each
/// layer. The layers may be split (nn/layers/linear.h), all in the same way. Layers in pieces, joined layers, and layers for
/// which gradients_have_places() is false run as separate operations.
Branch normed_linear(const at::Tensor& x, const at::Tensor& added, const NormParameters& norm,
                     const std::vector<LinearParameters>& layers, const Context& context);

}  // namespace weft
