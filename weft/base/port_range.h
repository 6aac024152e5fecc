// PortRange: the ports that weft takes where none is named, for networks in which only some are open.
//
// WEFT_PORTS="20000-20100" says it, to this process and those that it starts; without it the kernel chooses. All that listens
// goes by it: the head, the store, what is free for others (MASTER_PORT), Gloo's connections. Ports that are named (--head,
// --health-port, MASTER_PORT) are taken as named.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>

namespace weft {

struct PortRange {
  int first = 0, last = 0;  ///< both belong to it
  int size() const { return last - first + 1; }
  /// How many of the first ones are left to what must meet at a port that follows from a job's number: others come last to
  /// them.
  int num_meeting() const { return size() < 4 ? 1 : size() / 4; }
};

/// "20000-20100"; none where the text is no range of ports from 1024 on.
std::optional<PortRange> parse_port_range(const std::string& text);

/// Sets WEFT_PORTS, for this process and all that it starts; an empty text leaves it as it is.
void use_ports(const std::string& text);
/// What WEFT_PORTS says. Throws InputError where that is no range.
std::optional<PortRange> port_range();

/// bind(2), to an address of IPv4 or IPv6. Where that names no port and there is a range, to a port in it that is free, which
/// no other socket can bind to then; errno is EADDRINUSE where none is.
bool bind_within(const std::optional<PortRange>& range, int socket, const sockaddr* address, socklen_t length);

/// For errors: "port 80", "a port of 20000-20100 (run.ports or WEFT_PORTS)", "a port".
std::string port_text(int port, const std::optional<PortRange>& range);

}  // namespace weft
