// Times in messages between hosts, whose clocks do not agree: told as ages. What a message takes on its way is not known, and
// makes an event look later by it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/base/monotonic.h"

namespace weft {

/// How long ago that time of CLOCK_MONOTONIC was, for the message.
inline int64_t age_of(int64_t time_ns) { return std::max<int64_t>(monotonic_ns() - time_ns, 0); }

/// The time on this host's clock of what was so long ago when the message was sent.
inline int64_t time_of_age(int64_t age_ns) { return monotonic_ns() - std::max<int64_t>(age_ns, 0); }

}  // namespace weft
