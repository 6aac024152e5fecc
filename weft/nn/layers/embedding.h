// embedding: looks up rows of a weight by ids; the entries may be divided over the ranks of tp.
#pragma once

#include <vector>

#include "weft/comm/call/shard_range.h"
#include "weft/nn/block.h"

namespace weft {

/// Returns the rows of weight.value [entries, width] for ids [...] int64: [..., width]. A weight split along dim 0 gives zeros
/// for the entries of other ranks, and the outputs are summed over ranks, which is exact, as only one term is nonzero: an
/// all-reduce of the output in forward, nothing in backward. With sequence_parallel, ids [batch, tokens] give [batch, this
/// rank's tokens, width].
at::Tensor embedding(const at::Tensor& ids, const Parameter& weight, const Context& context);

/// The same for the ids [tokens] of these ranges, which the host knows: the device checks none of them.
at::Tensor embedding(const std::vector<ShardRange>& ids, const Parameter& weight, const Context& context);

}  // namespace weft
