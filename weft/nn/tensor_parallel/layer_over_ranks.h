// A weighted layer as one autograd operation that includes the norm or activation of its input, which is recomputed for
// backward, not kept; the collective that brings its input; and the one that takes its output (Shoeybi et al. 2019,
// arXiv:1909.08053; by tokens: Korthikanti et al. 2022, arXiv:2205.05198). Communication overlaps multiplication: the sum of
// input gradients overlaps the weight gradients, and the sum of each chunk of a product overlaps the next chunk's product.
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

/// Source of a layer's input. Traffic is for b bytes of the whole input in a group of n.
enum class LayerEntry : uint8_t {
  own,      ///< local to the rank: nothing is sent
  copied,   ///< whole on every rank; its gradient is summed, so it is whole too: backward 2 (n-1)/n b
  gathered  ///< each rank has its tokens (dim 1), and keeps only those for backward: (n-1)/n b, backward twice that
};

/// Destination of a layer's output. Traffic is for b bytes of the whole output.
enum class LayerExit : uint8_t {
  own,       ///< local to the rank
  summed,    ///< summed over the ranks, on each of them: 2 (n-1)/n b
  scattered  ///< each rank gets its tokens of that sum: (n-1)/n b, the same in backward
};

/// Layers that take the same input.
struct LayerCall {
  const WeightedLayer& mathematics;      ///< of each layer; must outlive the graph
  std::vector<LinearParameters> layers;  ///< bound to flat buffers, which outlive the graph; only one if the output is summed
  int64_t batch_pieces = 1;              ///< BlockLayout::batch_pieces; only if neither input nor output crosses ranks
  LayerEntry entry = LayerEntry::own;    ///< how the input arrives
  LayerExit exit = LayerExit::own;       ///< where the output goes; unless `own`, the layers have no bias
  Group group = {};                      ///< the ranks that share the layers
  int chunks = 1;                        ///< BlockLayout::tp_chunks
  std::string input = {};                ///< names calls for the input in errors: "input of h.3.mlp.in"
  std::string output = {};               ///< names calls for the output
};

/// Returns the layers' outputs, [..., out] each, for x, [..., in]. An activation's output is not kept.
Tensors apply(LayerCall call, const LayerInput& x);
/// The same for one layer on one rank.
at::Tensor apply(const WeightedLayer& layer, const LayerInput& x, Parameter& weight, Parameter* bias, int64_t batch_pieces = 1);

/// Rows normalised before the layers take them.
struct NormedRows {
  at::Tensor x;      ///< [batch, tokens, ..., in]
  at::Tensor added;  ///< like x; undefined: nothing is added
  Norm norm;         ///< norm of their sum
};

/// The same for norm(x + added); the result starts with their sum, which is kept for backward.
Tensors apply(LayerCall call, const NormedRows& rows);

}  // namespace weft
