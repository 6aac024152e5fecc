// What a model costs, found by running it on the meta device: no data, no weights, milliseconds for any size.
//
// Floating-point operations are counted as they are dispatched (matrix products and convolutions: 2 a multiply-add; the rest is
// not counted); bytes kept for backward are the storages that are still alive after a forward.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/nn/model.h"

namespace weft {

struct MeasuredCost {
  double forward_flops = 0.0;
  double backward_flops = 0.0;
  int64_t saved_bytes = 0;  ///< kept for backward: neither its input, its output nor its parameters
  int64_t output_bytes = 0;
};

/// Runs each block forward and backward once; the model's parameters must be on the meta device, or bound. `inputs` is a
/// micro-batch of meta tensors.
std::vector<MeasuredCost> measure_cost(Model& model, const Tensors& inputs);

}  // namespace weft
