// CLOCK_MONOTONIC: the same clock in all processes of a host.
#pragma once

#include <cstdint>

namespace weft {

/// The time on it.
int64_t monotonic_ns();

}  // namespace weft
