// Which of this host's network interfaces leads where, and listening on just that one.
//
// Addresses are numeric ("10.0.0.1", "fd00::1"); hosts are names or addresses, and looking a name up may last as long as the
// name server pleases. All functions throw Error with the system's reason.
#pragma once

#include <string>

#include "weft/base/file_descriptor.h"

namespace weft {

/// The address that this host has on the interface that leads to `host`: of the sender, in what it would send there. Sends
/// nothing.
std::string local_address_towards(const std::string& host);
/// Whether the address is one of this host's.
bool is_own_address(const std::string& address);
/// Whether a name or an address is this host's own; false for a name that is not known.
bool is_this_host(const std::string& name);
/// Whether the address is in 127.0.0.0/8 or ::1, which mean another host on every host.
bool is_loopback_address(const std::string& address);

/// A socket that listens at one of this host's addresses, or the first that a name stands for, on that interface only; closed
/// on exec. Port 0: any that is free, of port_range.h's.
FileDescriptor listen_at(const std::string& address, int port);
/// A socket that listens on all interfaces, over IPv6 too where the host has it.
FileDescriptor listen_everywhere(int port);
/// A socket that listens on the interface that leads to `host`.
FileDescriptor listen_towards(const std::string& host, int port);
/// The address of this host's own, and no loopback, that the name or address stands for; empty where it means something else
/// here than to those who were told it (a service's address, 127.0.1.1 in /etc/hosts). Throws for a name that is not known.
std::string own_address_as(const std::string& host);
/// A socket that listens for those who were told that this host is `host`: at own_address_as(), or where there is none on all
/// interfaces.
FileDescriptor listen_as(const std::string& host, int port);

/// The addresses of a connected or listening socket's two ends, without the port; empty where it has none.
std::string own_address_of(const FileDescriptor& socket);
std::string peer_address_of(const FileDescriptor& socket);

}  // namespace weft
