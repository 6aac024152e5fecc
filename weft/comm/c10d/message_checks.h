// MessageChecks: compares the two calls of each message that an engine of a device moves.
//
// The sender's record goes through the companion Gloo group when the call is made; a thread per peer compares it there with the
// receiver's call, in the order of the calls, so that the host waits for neither. Costs one small message per message.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "weft/base/deadline.h"
#include "weft/comm/call/call.h"
#include "weft/comm/call/work.h"

namespace weft {

class GlooBackend;

class MessageChecks {
 public:
  explicit MessageChecks(GlooBackend& records) : records_(records) {}
  /// Ends once the comparisons under way have ended: end_calls() first if a peer may not answer.
  ~MessageChecks();
  MessageChecks(const MessageChecks&) = delete;
  MessageChecks& operator=(const MessageChecks&) = delete;

  /// Begins to compare a send to, or a receive from, the rank at position call.root. A mismatch, or a peer that has gone, ends
  /// the group. Throws its error if it has ended.
  void add(const Call& call);
  /// Returns whether all comparisons have ended by the deadline; at once if the group has failed.
  bool finish(const Deadline& deadline);

 private:
  /// The messages to and from one peer.
  struct Lane {
    std::deque<Work> checks;
    std::thread thread;
  };
  void run(Lane& lane);

  GlooBackend& records_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool failed_ = false;
  std::map<int, Lane> lanes_;  ///< by position of the peer
};

}  // namespace weft
