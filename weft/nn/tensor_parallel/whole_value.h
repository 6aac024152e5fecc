// whole_value: a parameter that is whole on every rank of tp, as its layer uses it.
#pragma once

#include "weft/nn/block.h"

namespace weft {

/// Returns the parameter's value. When each rank of context.tp has its own tokens (sequence parallelism), its gradient is
/// summed over the ranks, 2 (n-1)/n of its bytes per rank: with BlockLayout::partial_gradients once a step, so that each use of
/// the parameter must come from here, otherwise by every backward.
at::Tensor whole_value(const Parameter& parameter, const Context& context);

}  // namespace weft
