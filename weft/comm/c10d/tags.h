// Tags of the messages between two ranks of a c10d group, by which it pairs them. Data meets only data of its size: Gloo ends
// the process that is sent more than it asked for.
#pragma once

#include <cstddef>

namespace weft {

inline constexpr int kRecordTag = 0;
inline constexpr int kCollectiveRecordTag = 1;

/// Of a caller's message of so many bytes.
constexpr int message_tag(size_t bytes) { return static_cast<int>(2 + bytes % ((1U << 30) - 2)); }
/// Of data in a collective: these go on beside the caller's messages.
constexpr int collective_tag(size_t bytes) { return static_cast<int>((1U << 30) + bytes % (1U << 30)); }

}  // namespace weft
