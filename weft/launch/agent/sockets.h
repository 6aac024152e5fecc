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

/// A connection to HOST:PORT, non-blocking. Tries for `timeout_s` at most; a name that is not known is an error too, as it may
/// be known soon.
FileDescriptor connect_to(const std::string& host, int port, double timeout_s);

/// Takes a connection that waits; none where none does.
FileDescriptor accept_from(const FileDescriptor& listening);

/// Whether a name or an address is this host's own.
bool is_this_host(const std::string& name);

}  // namespace weft
