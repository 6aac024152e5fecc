// Waiting for what another rank puts into the store, in sight of all ranks: the wait stands in the table of who waits for whom,
// and when it is in vain the error names the rank at the end of the chain.
#pragma once

#include <chrono>
#include <string>

#include "weft/base/error.h"
#include "weft/comm/store/store.h"
#include "weft/comm/wait/waits.h"

namespace weft {

/// A wait for `rank`, on the way to `doing`: "joining group \"dp\"".
RankRow wait_for_rank(int rank, const std::string& doing);

/// The value under `key` of a store that has a table, which wait.awaits.front() sets. Throws LostRank at the deadline, and
/// within some 200 ms where that rank has failed (with its error) or its process has ended.
std::string await_key(Store store, const std::string& key, const Deadline& deadline, const RankRow& wait);

/// Returns once all of wait.members have called this with that name, once a name: one trip for each, whatever their number.
/// Throws as await_key() does.
void await_all(Store store, const std::string& name, const Deadline& deadline, RankRow wait);

/// Tells `error` to all that wait for this rank: those of its groups, and those that meet in the store.
void tell_failure(Store& store, const Error& error);

}  // namespace weft
