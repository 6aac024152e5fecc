// A layer with a weight as one operation of autograd, whatever stands before it and whichever ranks share it: a norm or an
// activation of its input, which are made again for backward and not kept; the collective by which the input comes, and that in
// which the output goes (Shoeybi et al. 2019, arXiv:1909.08053; by tokens: Korthikanti et al. 2022, arXiv:2205.05198). So what
// goes to other ranks travels while this one multiplies: the sum of the gradients of inputs beside the weights' gradients, and
// a product's sum in chunks, each beside the product of the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/comm/group.h"
#include "weft/nn/block.h"
#include "weft/nn/functional/activation.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/weighted_layer.h"

namespace weft {

/// How a layer's input comes to a rank. Traffic of b bytes of the whole input in a group of n.
enum class LayerEntry : uint8_t {
  own,      ///< it is the rank's: nothing is sent
  copied,   ///< whole on every rank, and so is its gradient, which is summed: backward 2 (n-1)/n b
  gathered  ///< each rank has its tokens (dim 1), of which no more are kept for backward: (n-1)/n b, backward twice that
};

/// What becomes of a layer's output. Traffic of b bytes of the whole output.
enum class LayerExit : uint8_t {
  own,       ///< it is the rank's
  summed,    ///< the sum over the ranks, on each of them: 2 (n-1)/n b
  scattered  ///< of that sum each rank has its tokens: (n-1)/n b, backward as much
};

/// Layers that take the same input.
struct LayerCall {
  const WeightedLayer& mathematics;      ///< of each layer; lives as long as the graph
  std::vector<LinearParameters> layers;  ///< bound to flat buffers, which outlive the graph; one, where an output is summed
  int64_t batch_pieces = 1;              ///< BlockLayout::batch_pieces; of what neither enters nor leaves by others
  LayerEntry entry = LayerEntry::own;    ///< of the input
  LayerExit exit = LayerExit::own;       ///< of the output, which has no bias then
  Group group = {};                      ///< of the ranks that share the layers
  int chunks = 1;                        ///< BlockLayout::tp_chunks
  std::string input = {};                ///< names calls for the input in errors: "input of h.3.mlp.in"
  std::string output = {};               ///< and those for the output
};

/// The layers' outputs, [..., out] each, of x, [..., in]. What `activation` makes of x.tensors is not kept.
Tensors apply(LayerCall call, const LayerInput& x);
/// The same of one layer on one rank.
at::Tensor apply(const WeightedLayer& layer, const LayerInput& x, Parameter& weight, Parameter* bias, int64_t batch_pieces = 1);

/// Rows that are normalised before layers take them.
struct NormedRows {
  at::Tensor x;      ///< [batch, tokens, ..., in]
  at::Tensor added;  ///< like x; undefined: nothing
  Norm norm;         ///< of their sum
};

/// The same of norm(x + added); in front of the outputs their sum. The sum is kept for backward.
Tensors apply(LayerCall call, const NormedRows& rows);

}  // namespace weft
