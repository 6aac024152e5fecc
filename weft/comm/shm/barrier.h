// Barrier: starts every collective, and separates its chunks. A rank arrives, and continues once all ranks have arrived.
//
// Writes before arrival are visible to every rank that continues. begin() also compares the ranks' calls: afterwards all ranks
// know that they are in the same call, and where each rank's data lies. A barrier costs one update of a shared counter; the
// last rank to arrive wakes the sleepers.
#pragma once

#include "weft/comm/call/call.h"
#include "weft/comm/shm/control.h"
#include "weft/comm/shm/members.h"
#include "weft/comm/shm/wait.h"

namespace weft::shm {

/// Barrier of a group's ranks.
class Barrier {
 public:
  explicit Barrier(Members& members);

  /// Returns this rank's record of the next call; the caller adds the location of its data.
  CallRecord& open(const Call& call);
  /// Barrier that starts a call; throws the group's error, on all ranks, unless all records match.
  void begin(const Call& call);
  void meet(const Call& call);

  /// A peer's record of the current call. Valid until the barrier after this rank's next one.
  const CallRecord& record(int rank) const { return members_.block(rank).calls[number_ % 2]; }

 private:
  void compare(const Call& call) const;
  void sleep(uint32_t target, const Call& call);

  Members& members_;
  uint64_t number_ = 0;    ///< number of the current call
  uint32_t arrivals_ = 0;  ///< barriers this rank has arrived at
};

}  // namespace weft::shm
