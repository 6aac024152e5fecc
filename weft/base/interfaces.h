// Selection of this host's network interface towards a peer, and listening on that interface only.
//
// Addresses are numeric ("10.0.0.1", "fd00::1"); hosts are names or addresses, and a name lookup may block as long as the name
// server does. All functions throw Error with the system's reason.
#pragma once

#include <string>

#include "weft/base/file_descriptor.h"

namespace weft {

/// Returns this host's address on the interface that leads to `host`: the source address of packets sent there. Sends nothing.
std::string local_address_towards(const std::string& host);
/// Returns whether the address belongs to this host.
bool is_own_address(const std::string& address);
/// Returns whether a name or an address belongs to this host; false for an unknown name.
bool is_this_host(const std::string& name);
/// Returns whether the address is in 127.0.0.0/8 or ::1, which mean a different host on every host.
bool is_loopback_address(const std::string& address);

/// Returns a socket that listens on the interface of one of this host's addresses, or of the first address of a name; closed on
/// exec. Port 0: any free port, within port_range().
FileDescriptor listen_at(const std::string& address, int port);
/// Returns a socket that listens on all interfaces, over IPv6 too if the host has it.
FileDescriptor listen_everywhere(int port);
/// Returns a socket that listens on the interface that leads to `host`.
FileDescriptor listen_towards(const std::string& host, int port);
/// Returns the non-loopback address of this host that `host` (a name or address) resolves to; empty if there is none: other
/// hosts reach this one by a service's address, or /etc/hosts maps the name to 127.0.1.1. Throws for an unknown name.
std::string own_address_as(const std::string& host);
/// Returns a socket for peers that know this host as `host`: it listens at own_address_as(), or on all interfaces if that is
/// empty.
FileDescriptor listen_as(const std::string& host, int port);

/// Addresses of a socket's two ends, without the port; empty if that end has none.
std::string own_address_of(const FileDescriptor& socket);
std::string peer_address_of(const FileDescriptor& socket);

}  // namespace weft
