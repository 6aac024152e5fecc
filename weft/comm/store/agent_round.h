// agent_round: which start of its ranks this is, agreed through a store that outlives them all: torchrun's.
//
// torchrun's agents count restarts each for itself: one whose ranks failed counts, one that only starts its ranks again with
// the others does not, so TORCHELASTIC_RESTART_COUNT differs between hosts, and keys of ranks before would be taken for those
// of now. Rank 0 takes the next number and tells it whoever asks with a word that was never used; old askers get an answer that
// nobody reads. A few keys a rank, each time.
#pragma once

#include <cstdint>

#include "weft/base/deadline.h"
#include "weft/comm/store/store.h"

namespace weft {

/// The number of this start, the same on all ranks of it and on none before. All ranks call it. Throws CommError that names a
/// rank which does not come by the deadline.
int64_t agent_round(const Store& store, int rank, int size, const Deadline& deadline);

}  // namespace weft
