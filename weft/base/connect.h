// connect_to: a TCP connection to a host that may have several addresses.
#pragma once

#include <string>

#include "weft/base/deadline.h"
#include "weft/base/file_descriptor.h"

namespace weft {

/// A connection whose calls do not block and whose messages go at once, to the first of the host's addresses that answers, each
/// tried for two seconds at most. Throws Error with the last reason, also for a name that is not known (yet); a name server may
/// keep it beyond the deadline.
FileDescriptor connect_to(const std::string& host, int port, const Deadline& deadline);

}  // namespace weft
