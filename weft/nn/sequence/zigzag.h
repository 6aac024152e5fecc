// The zig-zag cut: the tokens of a sequence that each rank of a context-parallel axis holds.
//
// The sequence is cut into 2 n equal chunks, and rank r has chunks r and 2n-1-r. With a causal mask a token's work grows with
// its position, and this cut gives every rank the same work: any pair of chunk r and its mirror sees as many keys as any other
// (Llama 3, arXiv:2407.21783, section 3.3.2; Brandon et al. 2023, Striped Attention, arXiv:2311.09431, on the imbalance). No
// traffic: each rank takes its part of the data it has loaded.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "weft/comm/call/shard_range.h"

namespace weft {

/// The ranges of a sequence of `tokens` that `rank` of `ranks` holds, in order: two, or the whole for one rank. Throws
/// InputError, with the nearest valid lengths, when the tokens cannot be cut into 2 x ranks equal chunks.
std::vector<ShardRange> zigzag(int64_t tokens, int ranks, int rank);

/// Elements of `x` in these ranges of dimension `dim`, range after range; a view for a single range.
at::Tensor take_shards(const at::Tensor& x, int64_t dim, const std::vector<ShardRange>& ranges);

/// Position in the whole sequence of each token of take_shards(): [tokens of the ranges], int64, on `device`.
at::Tensor shard_positions(const std::vector<ShardRange>& ranges, at::Device device);

}  // namespace weft
