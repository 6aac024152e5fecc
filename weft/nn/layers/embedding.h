// embedding: rows of a weight by ids, of which each rank of tp may have a part of the entries.
#pragma once

#include "weft/nn/block.h"

namespace weft {

/// The rows of weight.value [entries, width] for ids [...] int64: [..., width]. A weight that is split along dim 0 gives rows
/// of zeros for the entries of other ranks, and the ranks' sum is taken, which has the bits of the one that is not zero: an
/// all-reduce of the output forward, nothing backward. With sequence_parallel: ids [batch, tokens] to [batch, this rank's
/// tokens, width].
at::Tensor embedding(const at::Tensor& ids, const Parameter& weight, const Context& context);

}  // namespace weft
