// CLOCK_MONOTONIC: the same clock in all processes of a host.
#pragma once

#include <cstdint>

namespace weft {

/// Current time, in nanoseconds.
int64_t monotonic_ns();

}  // namespace weft
