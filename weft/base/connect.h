// connect_to: a TCP connection to a host that may have several addresses.
#pragma once

#include <string>

#include "weft/base/deadline.h"
#include "weft/base/file_descriptor.h"

namespace weft {

/// Connects to the first of the host's addresses that answers, trying each for at most two seconds. The socket is non-blocking,
/// with TCP_NODELAY. Throws Error with the last reason, also for an unknown name; its lookup may block past the deadline.
FileDescriptor connect_to(const std::string& host, int port, const Deadline& deadline);

}  // namespace weft
