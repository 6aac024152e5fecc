#include "weft/base/tcp_options.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <filesystem>
#include <system_error>

#include "weft/base/parse_number.h"

namespace weft {

namespace {

/// TCP_RTO_MAX_MS, missing from older headers. 1000 is the minimum.
constexpr int kLongestRetryOption = 44, kLongestRetry_ms = 1000;
/// By default Linux gives up after 15 retries (tcp_retries2), about 15 minutes with doubling waits; this keeps that time.
constexpr int kGiveUp_ms = 15 * 60 * 1000;

bool is_tcp_connection(int descriptor) {
  int protocol = 0;
  socklen_t length = sizeof protocol;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) != 0 || protocol != IPPROTO_TCP) return false;
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  return ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

}  // namespace

void send_at_once(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void retry_each_second(int socket) {
  if (::setsockopt(socket, IPPROTO_TCP, kLongestRetryOption, &kLongestRetry_ms, sizeof kLongestRetry_ms) != 0) return;
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kGiveUp_ms, sizeof kGiveUp_ms);
}

int unconfirmed_bytes(int socket) {
  int bytes = 0;
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_state == TCP_CLOSE) return 0;
  return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

std::set<int> tcp_connections() {
  std::set<int> all;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const auto number = parse_number<int>(entry.path().filename().string());
    if (number && is_tcp_connection(*number)) all.insert(*number);
  }
  return all;
}

}  // namespace weft
