// How TCP connections between hosts are set: messages go at once, and data that was lost is sent again each second at most.
#pragma once

#include <set>

namespace weft {

/// Small messages are not kept back to be sent with more.
void send_at_once(int socket);

/// After a link was cut data flows again within a second of its mending: the system waits no longer than that before it tries
/// again, where it would double its wait each time (a link that was cut for 9 s may lie idle for 4 more). It gives up after 15
/// minutes, as it would without (TCP_USER_TIMEOUT, for who wants less, is set after this). Does nothing before Linux 6.15.
void retry_each_second(int socket);

/// Bytes that have been sent and that the other end's system has not confirmed; 0 too for what is no connection, or none any
/// more.
int unconfirmed_bytes(int socket);

/// This process's TCP sockets that have another end, for those of libraries that hand them to nobody.
std::set<int> tcp_connections();

}  // namespace weft
