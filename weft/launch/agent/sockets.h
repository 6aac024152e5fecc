// TCP sockets between the agents of several hosts. All functions throw Error with the system's reason.
#pragma once

#include <string>

#include "weft/base/file_descriptor.h"

namespace weft {

/// Socket on which a head listens.
struct HeadSocket {
  FileDescriptor socket;  ///< non-blocking, closed on exec
  /// Why the socket listens on all interfaces; empty if it does not.
  std::string why_everywhere = {};
};

/// Listens for agents that reach this host as `host`, at this host's own address for that name; a loopback address, or
/// "localhost", counts as one, since all agents are then on this host. If `host` has no address here, or is empty (unknown),
/// listens on all interfaces. Port 0: any free port.
HeadSocket listen_for_agents(const std::string& host, int port);

/// Returns another listening socket, at a free port on the same interfaces.
FileDescriptor listen_beside(const FileDescriptor& listening);
/// Address at which this host itself reaches such a socket.
std::string address_here(const FileDescriptor& listening);

/// Returns a port that was free on every interface a moment ago; another process may take it before it is used.
int free_port();

/// Accepts a waiting connection; empty if there is none.
FileDescriptor accept_from(const FileDescriptor& listening);

}  // namespace weft
