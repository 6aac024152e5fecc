// whole_value: a parameter that every rank of tp has whole, where its layer computes.
#pragma once

#include "weft/nn/block.h"

namespace weft {

/// The parameter's value. Where each rank of context.tp has its own tokens (sequence parallelism), its gradient is summed over
/// them: 2 (n-1)/n of its bytes a rank, in each backward.
at::Tensor whole_value(const Parameter& parameter, const Context& context);

}  // namespace weft
