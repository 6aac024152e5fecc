// Times in messages between hosts whose clocks do not agree, sent as ages. An event appears later than it was, by the unknown
// transit time of its message.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/base/monotonic.h"

namespace weft {

/// Age of a CLOCK_MONOTONIC time, to be sent in a message.
inline int64_t age_of(int64_t time_ns) { return std::max<int64_t>(monotonic_ns() - time_ns, 0); }

/// Time on this host's clock of an event that was this old when the message was sent.
inline int64_t time_of_age(int64_t age_ns) { return monotonic_ns() - std::max<int64_t>(age_ns, 0); }

}  // namespace weft
