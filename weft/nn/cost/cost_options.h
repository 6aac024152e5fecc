// CostOptions: settings under which a model is measured (nn/cost/measure_cost.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/base/target_device.h"
#include "weft/nn/block_layout.h"

namespace weft {

/// Settings under which a model is measured.
struct CostOptions {
  at::ScalarType weight_dtype = at::kFloat;    ///< type of parameters and activations
  at::ScalarType gradient_dtype = at::kFloat;  ///< type of the parameters' gradients
  int tp = 1;                                  ///< ranks of Context::tp; the model is split for the first of them
  int cp = 1;                                  ///< ranks of Context::cp; inputs are one rank's part of the tokens
  int batch_ranks = 1;                         ///< ranks of Context::batch
  BlockLayout layout = {};                     ///< Context::layout
  at::Tensor target = {};                      ///< Context::target
  TargetDevice device = TargetDevice::cpu;     ///< what the meta device stands for (nn/kernels/kernel_table.h)
};

}  // namespace weft
