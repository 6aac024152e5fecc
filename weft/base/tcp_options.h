// Options of TCP connections between hosts: no send delay, and retransmission of lost data at least once per second.
#pragma once

#include <set>

namespace weft {

/// Sends small messages immediately (TCP_NODELAY).
void send_at_once(int socket);

/// Caps the retransmission wait at one second, so data flows again within a second after a cut link recovers; by default the
/// wait doubles each time (a link cut for 9 s may idle for 4 more). Gives up after 15 minutes, like the default; to give up
/// sooner, set TCP_USER_TIMEOUT afterwards. Does nothing before Linux 6.15.
void retry_each_second(int socket);

/// Returns the bytes sent but not yet acknowledged by the peer's system; 0 for anything but an open connection.
int unconfirmed_bytes(int socket);

/// Returns this process's connected TCP sockets, including those that libraries do not expose.
std::set<int> tcp_connections();

}  // namespace weft
