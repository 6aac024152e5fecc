// Sockets on the loopback interface, which other hosts cannot reach. All functions throw Error with the system's reason. Free
// ports come from port_range().
#pragma once

#include "weft/base/file_descriptor.h"

namespace weft {

/// Returns a socket that listens on 127.0.0.1, closed on exec. Port 0: any free port.
FileDescriptor listen_on_loopback(int port = 0);

/// Returns the port that a socket of this process is bound to.
int port_of(const FileDescriptor& socket);

/// Returns a port that was free a moment ago; another process may take it first.
int free_loopback_port();

}  // namespace weft
