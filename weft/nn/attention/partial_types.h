// Arguments and results of attention of some queries to some keys. Shapes as in nn/attention/partial.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Keys that a query sees. causal: those at its own position and before; there must be as many keys as queries.
enum class AttentionMask { none, causal };

/// Attention over some of the keys.
struct AttentionPiece {
  at::Tensor out;        ///< same shape as q
  at::Tensor logsumexp;  ///< of the scaled scores: [batch, heads, queries], float32 (float64 for float64)
};

/// Gradients of a piece's inputs, with their types and shapes.
struct AttentionGradients {
  at::Tensor q;  ///< gradient of the queries
  at::Tensor k;  ///< gradient of the keys
  at::Tensor v;  ///< gradient of the values
};

}  // namespace weft
