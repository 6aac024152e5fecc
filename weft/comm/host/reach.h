// Whether somebody listens at an address yet: ranks start in any order, and c10d complains of each attempt.
#pragma once

#include <string>

#include "weft/base/deadline.h"
#include "weft/base/file_descriptor.h"

namespace weft {

/// A TCP connection to that address, whose calls do not block, tried again until somebody listens there. Throws Error with the
/// last attempt's reason when there is none by the deadline; a name server may keep it longer.
FileDescriptor reach(const std::string& host, int port, const Deadline& deadline);
/// Returns once such a connection has been made (and closed again).
void wait_until_reachable(const std::string& host, int port, const Deadline& deadline);

}  // namespace weft
