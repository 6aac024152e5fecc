// Clipping by the exact global norm: over every trained element of the model once.
#pragma once

#include "weft/nn/flat.h"

namespace weft {

/// Euclidean norm of all gradients, divided by `divisor`. Statistics and padding do not count. Summed in double in an order
/// that depends on the model only.
double gradient_norm(FlatModel& model, double divisor);

/// What gradients are multiplied by so that their norm is at most `limit` (Pascanu et al. 2013): min(1, limit / norm).
double clip_factor(double norm, double limit);

}  // namespace weft
