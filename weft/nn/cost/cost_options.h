// CostOptions: how a model is run to be measured (nn/cost/measure_cost.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/context_method.h"

namespace weft {

/// How a model is run to be measured.
struct CostOptions {
  at::ScalarType weight_dtype = at::kFloat;                 ///< of parameters and activations
  at::ScalarType gradient_dtype = at::kFloat;               ///< of the parameters' gradients
  bool recompute_parts = false;                             ///< Context::recompute_parts
  int tp = 1;                                               ///< ranks of Context::tp; the model is split for the first of them
  int cp = 1;                                               ///< ranks of Context::cp; inputs are one's part
  int batch_ranks = 1;                                      ///< ranks of Context::batch
  int batch_pieces = 1;                                     ///< Context::batch_pieces
  bool sequence_parallel = false;                           ///< Context::sequence_parallel
  int tp_chunks = 1;                                        ///< Context::tp_chunks
  ContextMethod attention_over = ContextMethod::automatic;  ///< Context::attention_over
};

}  // namespace weft
