// Dropout in a block of any model: its mask is keyed by the Context, never by rank (nn/random.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "weft/nn/block.h"

namespace weft {

/// Returns x [batch, ...] with each element zeroed with probability p and the others divided by 1 - p if context.training; x
/// itself in evaluation. The mask depends on (seed, step, name, sample, element), so it is the same in every layout and when
/// recomputed. When ranks share sequences (context.cp, context.layout.sequence_parallel), x is [batch, this rank's tokens,
/// ...], whole in the remaining dims. Two calls with the same name drop the same elements, so start each name with the block's.
/// Throws InputError unless 0 <= p <= 1.
at::Tensor dropout(const at::Tensor& x, double p, const Context& context, std::string_view name);

}  // namespace weft
