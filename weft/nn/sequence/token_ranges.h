// token_ranges: which tokens of its samples a rank computes, as its Context says.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/comm/call/shard_range.h"
#include "weft/nn/block.h"

namespace weft {

/// Where `tokens` tokens of each sample, all that the ranks of context.tp have together, stand in the whole sequence: its part
/// of the zig-zag cut over context.cp (nn/sequence/zigzag.h), in order.
std::vector<ShardRange> sequence_ranges(const Context& context, int64_t tokens);

/// The same of an activation between split layers, of which with sequence_parallel this rank has `tokens` tokens alone.
std::vector<ShardRange> own_ranges(const Context& context, int64_t tokens);

}  // namespace weft
