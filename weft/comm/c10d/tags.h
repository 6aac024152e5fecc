// Tags by which c10d pairs the messages between two ranks of a group. Data is paired only with data of the same size: Gloo
// terminates a process that receives more than it requested.
#pragma once

#include <cstddef>

namespace weft {

inline constexpr int kRecordTag = 0;
inline constexpr int kCollectiveRecordTag = 1;
inline constexpr int kProbeTag = 2;

/// Tag of a caller's message of `bytes`.
constexpr int message_tag(size_t bytes) { return static_cast<int>(3 + bytes % ((1U << 30) - 3)); }
/// Tag of data in a collective, which may overlap the caller's messages.
constexpr int collective_tag(size_t bytes) { return static_cast<int>((1U << 30) + bytes % (1U << 30)); }

}  // namespace weft
