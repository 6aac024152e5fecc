// The memory that the ranks of a shm group meet in: who is where, what each rank called, the error that ended the group, and
// behind it the staging areas and the channels for point-to-point messages.
//
// Plain fields are written by one rank before it arrives at a meeting and read by the others after it, see barrier.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/comm/call/call_record.h"

namespace weft::shm {

constexpr int kMaxRanks = 256;
constexpr int kMaxBuffers = 4096;  ///< registered buffers of a group that live at one time
constexpr int kStages = 3;         ///< copy in, reduce, copy out: each works on its own part of the staging area
constexpr size_t kFailureBytes = 2048;

enum class Presence : uint32_t { absent, present, left };

/// The wait of a rank that has waited for a while, for its peers to see.
enum class Blocked : uint32_t { no, meeting, sending, receiving };

struct alignas(64) RankBlock {
  std::atomic<uint32_t> arrivals{0};  ///< meetings this rank has arrived at
  std::atomic<Presence> presence{Presence::absent};
  std::atomic<int32_t> pid{0};
  alignas(64) std::atomic<uint32_t> doorbell{0};  ///< rung when a message or room for one has come
  std::atomic<uint32_t> asleep{0};
  alignas(64) std::atomic<uint32_t> blocked_serial{0};  ///< odd while blocked; another number each time
  std::atomic<Blocked> blocked{Blocked::no};
  std::atomic<int32_t> blocked_on{-1};  ///< peer of a send or receive
  CallRecord calls[2];                  ///< collectives, by number modulo 2
  CallRecord message;                   ///< the send or receive under way
};

struct Control {
  alignas(64) std::atomic<uint32_t> arrivals{0};  ///< of all ranks, over all meetings
  alignas(64) std::atomic<uint32_t> asleep{0};
  alignas(64) std::atomic<uint32_t> failed{0};  ///< 0: no, 1: being written, 2: see failure
  std::atomic<int32_t> culprit{-1};             ///< of the world; -1: none
  char failure[kFailureBytes] = {};
  std::atomic<uint32_t> buffer_users[kMaxBuffers] = {};  ///< ranks whose tensor of the buffer lives
  RankBlock ranks[kMaxRanks];
};

}  // namespace weft::shm
