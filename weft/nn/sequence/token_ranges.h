// token_ranges: the tokens of each sample that a rank computes, derived from its Context.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/comm/call/shard_range.h"
#include "weft/nn/block.h"

namespace weft {

/// Positions, in the whole sequence, of the `tokens` tokens per sample that the ranks of context.tp hold in total: their part
/// of the zig-zag cut over context.cp (nn/sequence/zigzag.h), in order.
std::vector<ShardRange> sequence_ranges(const Context& context, int64_t tokens);

/// The same for an activation between split layers, where with sequence_parallel this rank has `tokens` tokens of its own.
std::vector<ShardRange> own_ranges(const Context& context, int64_t tokens);

}  // namespace weft
