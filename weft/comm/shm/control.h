// Shared control memory of a shm group: each rank's presence and calls, and the error that ended the group. Staging areas and
// channels for point-to-point messages follow it in memory.
//
// Plain fields are written by one rank before it arrives at a barrier (barrier.h) and read by the others after it.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/comm/call/call_record.h"

namespace weft::shm {

constexpr int kMaxRanks = 256;
constexpr int kMaxBuffers = 4096;  ///< registered buffers alive at once in a group
constexpr int kStages = 3;         ///< copy in, reduce, copy out: each has its part of the staging area
constexpr size_t kFailureBytes = 2048;
constexpr size_t kCoreWords = 16;  ///< of 64 cores

enum class Presence : uint32_t { absent, present, left };

/// A long wait of a rank, visible to its peers.
enum class Blocked : uint32_t { no, meeting, sending, receiving };

struct alignas(64) RankBlock {
  std::atomic<uint32_t> arrivals{0};  ///< barriers this rank has arrived at
  std::atomic<Presence> presence{Presence::absent};
  std::atomic<int32_t> pid{0};
  std::atomic<uint64_t> cores[kCoreWords] = {};   ///< that its thread may use, a bit each
  alignas(64) std::atomic<uint32_t> doorbell{0};  ///< rung when a message, or room for one, has arrived
  std::atomic<uint32_t> asleep{0};
  alignas(64) std::atomic<uint32_t> blocked_serial{0};  ///< odd while blocked; changes for each wait
  std::atomic<Blocked> blocked{Blocked::no};
  std::atomic<int32_t> blocked_on{-1};  ///< peer of a send or receive
  CallRecord calls[2];                  ///< collectives, by number modulo 2
  CallRecord message;                   ///< the current send or receive
};

struct Control {
  alignas(64) std::atomic<uint32_t> arrivals{0};  ///< arrivals of all ranks, over all barriers
  alignas(64) std::atomic<uint32_t> asleep{0};
  alignas(64) std::atomic<uint32_t> failed{0};  ///< 0: no, 1: being written, 2: see failure
  std::atomic<int32_t> culprit{-1};             ///< world rank; -1: no culprit
  char failure[kFailureBytes] = {};
  std::atomic<uint32_t> buffer_users[kMaxBuffers] = {};  ///< ranks with a live tensor of the buffer
  RankBlock ranks[kMaxRanks];
};

}  // namespace weft::shm
