// What attention of some queries to some keys takes and gives. Shapes as in nn/attention/partial.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Which keys a query sees. causal: those at its own place and before; there are as many keys as queries.
enum class AttentionMask { none, causal };

/// Attention over some of the keys.
struct AttentionPiece {
  at::Tensor out;        ///< like q
  at::Tensor logsumexp;  ///< of the scaled scores: [batch, heads, queries], float32 (float64 for float64)
};

/// Gradients of a piece's inputs, each of its type and shape.
struct AttentionGradients {
  at::Tensor q;  ///< of the queries
  at::Tensor k;  ///< of the keys
  at::Tensor v;  ///< of the values
};

}  // namespace weft
