// Waits for a listener before c10d connects: ranks start in any order, and c10d logs each failed attempt.
#pragma once

#include <string>

#include "weft/base/deadline.h"
#include "weft/base/file_descriptor.h"

namespace weft {

/// Returns a non-blocking TCP connection, retrying until somebody listens there. Throws Error with the last attempt's reason at
/// the deadline; a name lookup may block longer.
FileDescriptor reach(const std::string& host, int port, const Deadline& deadline);
/// Returns once such a connection has been opened (and closed again).
void wait_until_reachable(const std::string& host, int port, const Deadline& deadline);

}  // namespace weft
