// CostOptions: how a model is run to be measured (nn/cost/measure_cost.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/block_layout.h"

namespace weft {

/// How a model is run to be measured.
struct CostOptions {
  at::ScalarType weight_dtype = at::kFloat;    ///< of parameters and activations
  at::ScalarType gradient_dtype = at::kFloat;  ///< of the parameters' gradients
  int tp = 1;                                  ///< ranks of Context::tp; the model is split for the first of them
  int cp = 1;                                  ///< ranks of Context::cp; inputs are one's part
  int batch_ranks = 1;                         ///< ranks of Context::batch
  BlockLayout layout = {};                     ///< Context::layout
};

}  // namespace weft
