// TCP sockets between the agents of several hosts. All throw Error with the system's reason.
#pragma once

#include <string>

#include "weft/base/file_descriptor.h"

namespace weft {

/// Where a head listens.
struct HeadSocket {
  FileDescriptor socket;  ///< non-blocking, closed on exec
  /// Why it listens on all interfaces; empty: it does not.
  std::string why_everywhere = {};
};

/// Listens for agents that reach this host as `host`: at the address of this host's own that it stands for; a loopback address,
/// or "localhost", is one, as all agents are on this host then. Where it stands for none, or is empty as nothing is known, on
/// all interfaces. Port 0: any that is free.
HeadSocket listen_for_agents(const std::string& host, int port);

/// A socket with a free port for what goes with the one that listens: on the same interfaces.
FileDescriptor listen_beside(const FileDescriptor& listening);
/// The address by which this host reaches such a socket.
std::string address_here(const FileDescriptor& listening);

/// A port that was free on every interface a moment ago; somebody else may take it before it is used.
int free_port();

/// Takes a connection that waits; none where none does.
FileDescriptor accept_from(const FileDescriptor& listening);

}  // namespace weft
