#include "weft/base/tcp_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace weft {

namespace {

/// TCP_RTO_MAX_MS, which headers older than the kernel do not know. 1000 is the least that it takes.
constexpr int kLongestRetryOption = 44, kLongestRetry_ms = 1000;

}  // namespace

void send_at_once(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void retry_each_second(int socket) {
  ::setsockopt(socket, IPPROTO_TCP, kLongestRetryOption, &kLongestRetry_ms, sizeof kLongestRetry_ms);
}

bool is_tcp_connection(int descriptor) {
  int protocol = 0;
  socklen_t length = sizeof protocol;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) != 0 || protocol != IPPROTO_TCP) return false;
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  return ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

}  // namespace weft
