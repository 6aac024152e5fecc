// agent_round: numbers the starts of the ranks, through a store that outlives all of them: torchrun's.
//
// Each of torchrun's agents counts restarts separately: it counts a restart if its own ranks failed, but not if it only follows
// other agents. So TORCHELASTIC_RESTART_COUNT differs between hosts, and old keys could be mistaken for current ones. Rank 0
// takes the next number and sends it to every rank that asks with a fresh nonce; answers to old requests are never read. This
// takes a few keys per rank and start.
#pragma once

#include <cstdint>

#include "weft/base/deadline.h"
#include "weft/comm/store/store.h"

namespace weft {

/// Returns the number of this start: the same on all its ranks, and new. Collective. Throws CommError that names a rank that
/// does not arrive by the deadline.
int64_t agent_round(const Store& store, int rank, int size, const Deadline& deadline);

}  // namespace weft
