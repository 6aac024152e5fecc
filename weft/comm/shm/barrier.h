// Barrier: the point that every collective starts at, and passes once a chunk. A rank arrives, and goes on when all have.
//
// What a rank wrote before it arrived is seen by all that went on. begin() also compares what the ranks called: after it they
// know that all are in the same call, and where each one's data lies. A meeting costs one shared counter; the last rank to
// arrive wakes those that sleep.
#pragma once

#include "weft/comm/call/call.h"
#include "weft/comm/shm/control.h"
#include "weft/comm/shm/members.h"
#include "weft/comm/shm/wait.h"

namespace weft::shm {

/// Where the ranks of a group meet.
class Barrier {
 public:
  explicit Barrier(Members& members, SpinPolicy spin);

  /// This rank's record of the call it is about to begin, to be filled with where its data lies.
  CallRecord& open(const Call& call);
  /// Meets at the start of a call; throws the group's error, on all ranks, unless all records match.
  void begin(const Call& call);
  void meet(const Call& call);

  /// A peer's record of the call under way. Valid until this rank's second next meeting.
  const CallRecord& record(int rank) const { return members_.block(rank).calls[number_ % 2]; }

 private:
  void compare(const Call& call) const;
  void sleep(uint32_t target, const Call& call);

  Members& members_;
  SpinPolicy spin_;
  uint64_t number_ = 0;    ///< of the call under way
  uint32_t arrivals_ = 0;  ///< of this rank
};

}  // namespace weft::shm
