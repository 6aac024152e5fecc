// PortRange: the ports that weft uses unless a port is given, for networks that open only some ports.
//
// WEFT_PORTS="20000-20100" sets it for this process and its children; without it the kernel chooses. All listeners follow it:
// the head of a run, the store, Gloo's connections, and ports that weft picks for other programs (MASTER_PORT). Explicit ports
// (--head, --health-port, MASTER_PORT) are used as given.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>

namespace weft {

struct PortRange {
  int first = 0, last = 0;  ///< inclusive
  int size() const { return last - first + 1; }
  /// Number of ports at the start of the range for rendezvous ports derived from a job's id; other uses take these last.
  int num_meeting() const { return size() < 4 ? 1 : size() / 4; }
};

/// Parses "20000-20100"; nullopt unless the text is a range of ports that starts at 1024 or above.
std::optional<PortRange> parse_port_range(const std::string& text);

/// Sets WEFT_PORTS for this process and its children; an empty text leaves it unchanged.
void use_ports(const std::string& text);
/// Reads WEFT_PORTS. Throws InputError if it is not a valid range.
std::optional<PortRange> port_range();

/// Calls bind(2) for an IPv4 or IPv6 address. If the address has port 0 and there is a range, binds to a free port in the
/// range, exclusively; errno is EADDRINUSE if no port is free.
bool bind_within(const std::optional<PortRange>& range, int socket, const sockaddr* address, socklen_t length);

/// For errors: "port 80", "a port of 20000-20100 (run.ports or WEFT_PORTS)", "a port".
std::string port_text(int port, const std::optional<PortRange>& range);

}  // namespace weft
