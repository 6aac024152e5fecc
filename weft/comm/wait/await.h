// Waits for other ranks' keys in the store, visible to all ranks: the wait is listed in the table of waiting ranks, and its
// error names the rank at the end of the chain of waits.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/comm/store/store.h"
#include "weft/comm/wait/waits.h"

namespace weft {

/// Returns a wait for `rank` during `doing`: "joining group \"dp\"".
RankRow wait_for_rank(int rank, const std::string& doing);

/// Returns the value under `key`, which rank wait.awaits.front() sets, in a store that has a table. Throws LostRank at the
/// deadline, and within about 200 ms if that rank has failed (with its error) or its process has ended.
std::string await_key(Store store, const std::string& key, const Deadline& deadline, const RankRow& wait);

/// Returns once all of wait.members have called this with `name`, used only once. One trip per rank. Throws like await_key().
void await_all(Store store, const std::string& name, const Deadline& deadline, RankRow wait);

/// The same, and returns the values that they gave, in their order.
std::vector<std::string> gather_all(Store store, const std::string& name, const std::string& value, const Deadline& deadline,
                                    RankRow wait);

/// Reports `error` to all ranks that wait for this one, in its groups and in the store.
void report_failure(Store& store, const Error& error);

}  // namespace weft
