// own_tokens: what a rank computes of a micro-batch whose sequences several ranks share.
#pragma once

#include "weft/comm/group.h"
#include "weft/engine/micro_batch.h"

namespace weft {

/// This rank's part of the sequences, by the zig-zag cut (nn/sequence/zigzag.h): inputs and target [samples, tokens, ...]
/// become [samples, its tokens, ...]; a target that is undefined stays so. The batch itself in a group of one. Throws
/// InputError for tensors without tokens, or a number of them that cannot be cut so.
MicroBatch own_tokens(MicroBatch batch, const Group& cp);

}  // namespace weft
