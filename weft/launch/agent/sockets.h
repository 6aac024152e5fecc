// TCP sockets between the agents of several hosts. All throw Error with the system's reason.
#pragma once

#include <string>

#include "weft/base/file_descriptor.h"

namespace weft {

/// A socket that listens on every interface, IPv6 too where there is such, closed on exec, non-blocking. Port 0: any that is
/// free.
FileDescriptor listen_on_all_interfaces(int port);

/// A port that was free on every interface a moment ago; somebody else may take it before it is used.
int free_port();

/// Takes a connection that waits; none where none does.
FileDescriptor accept_from(const FileDescriptor& listening);

}  // namespace weft
