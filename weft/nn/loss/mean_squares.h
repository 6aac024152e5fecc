// Summed squared differences of outputs and target, as torch.nn.MSELoss averages them.
#pragma once

#include "weft/nn/model.h"

namespace weft {

/// Squared differences of the first output and a target of its shape and type, summed; each element counts.
LossValue mean_squares(const Tensors& outputs, const at::Tensor& target);

}  // namespace weft
