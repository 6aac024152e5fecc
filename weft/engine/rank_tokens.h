// own_tokens: a rank's tokens of a micro-batch whose sequences several ranks share.
#pragma once

#include "weft/comm/group.h"
#include "weft/engine/micro_batch.h"

namespace weft {

/// Returns this rank's part of the sequences by the zig-zag cut (nn/sequence/zigzag.h): inputs and target [samples, tokens,
/// ...] become [samples, own tokens, ...]; an undefined target stays undefined. A group of one returns the batch itself. Throws
/// InputError for tensors without a token dimension, or a token count that the cut does not divide.
MicroBatch own_tokens(MicroBatch batch, const Group& cp);

}  // namespace weft
