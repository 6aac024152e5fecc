// A model whose blocks round otherwise: to measure what rounding does to a training.
//
// How far rounding takes a few steps apart depends on the model and the optimizer: AdamW makes whole steps of the noise of a
// gradient that is truly zero (the bias of an attention's keys). So it is measured: each element of each block's outputs is
// multiplied by 1 + 2 u e, with u uniform in [-1, 1) and e the spacing of the type that blocks compute in; its gradient is too.
// Costs a pass over every activation.
#pragma once

#include <cstdint>

#include "weft/nn/model.h"
#include "weft/recipe/precision.h"

namespace weft {

/// The model with that noise, keyed by `number`, seed, block, step and sample, and by nothing else.
Model with_rounding_noise(Model model, Precision precision, int number);

}  // namespace weft
