// The mathematics of a linear layer, without state or autograd; linear() and its split forms are built on it.
#pragma once

#include "weft/nn/functional/weighted_layer.h"

namespace weft {

/// y = x W^T + b: x [..., in], weight [out, in], bias [out].
extern const WeightedLayer kMatrixLayer;

}  // namespace weft
