// Sockets on the loopback interface, which no other host can reach. All throw Error with the system's reason. Free ports are
// those of port_range.h.
#pragma once

#include "weft/base/file_descriptor.h"

namespace weft {

/// A socket that listens on 127.0.0.1, closed on exec. Port 0: any that is free.
FileDescriptor listen_on_loopback(int port = 0);

/// The port that a socket of this process is bound to.
int port_of(const FileDescriptor& socket);

/// A port that was free a moment ago; somebody else may take it before it is used.
int free_loopback_port();

}  // namespace weft
