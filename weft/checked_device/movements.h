// Bytes that other threads move: a launch on a stream that is not done when its call returns.
#pragma once

#include <future>

#include "weft/checked_device/clock.h"

namespace weft::checked_device {

/// Launch `time` of stream `actor` is done once `done` is ready. Under order_mutex().
void add_movement(int actor, uint64_t time, std::shared_future<void> done);

/// The host waits for these, on `device`, and for the bytes that other threads move for them; `what` asked for it. Not under
/// order_mutex().
void wait_on_host(const Clock& clock, int device, const char* what);

/// Whether all of these are done. Orders nothing: one run may find so later than another, so a query is no wait.
bool is_moved(const Clock& clock);

}  // namespace weft::checked_device
