// The mathematics of a linear layer, without state and without autograd: what linear() and its split forms are made of.
#pragma once

#include "weft/nn/functional/weighted_layer.h"

namespace weft {

/// y = x W^T + b: x [..., in], weight [out, in], bias [out].
extern const WeightedLayer kMatrixLayer;

}  // namespace weft
