// Dropout in a block of any model: what it drops is keyed by what its Context says, never by rank (nn/random.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "weft/nn/block.h"

namespace weft {

/// x [batch, ...] with each element zeroed with probability p and the others divided by 1 - p while context.training; x itself
/// in an evaluation. The mask belongs to (seed, step, name, sample, element), so it is the same in every layout and when it is
/// computed again. Where ranks share sequences (context.cp, context.layout.sequence_parallel) x is [batch, tokens, ...] of this
/// rank's tokens, whole behind them. Two calls with one name drop the same: begin it with the block's. Throws InputError
/// unless 0 <= p <= 1.
at::Tensor dropout(const at::Tensor& x, double p, const Context& context, std::string_view name);

}  // namespace weft
