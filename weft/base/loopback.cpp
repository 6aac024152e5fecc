#include "weft/base/loopback.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/port_range.h"

namespace weft {

namespace {

[[noreturn]] void fail(int port, const std::optional<PortRange>& range = {}) {
  throw Error(fmt::format("cannot open {} on 127.0.0.1: {}", port_text(port, range), std::strerror(errno)));
}

FileDescriptor bind_on_loopback(int port) {
  const auto range = port_range();
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Lets a named port be reused while the kernel still remembers connections of an earlier run.
  const int reuse = 1;
  if (socket.get() < 0 || (port != 0 && setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse) != 0) ||
      !bind_within(range, socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address)) {
    fail(port, range);
  }
  return socket;
}

}  // namespace

FileDescriptor listen_on_loopback(int port) {
  FileDescriptor socket = bind_on_loopback(port);
  if (listen(socket.get(), SOMAXCONN) != 0) fail(port, {});
  return socket;
}

int port_of(const FileDescriptor& socket) {
  sockaddr_in6 address{};  // its port is at the same offset as IPv4's
  socklen_t length = sizeof address;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) fail(0);
  return ntohs(address.sin6_port);
}

int free_loopback_port() { return port_of(bind_on_loopback(0)); }

}  // namespace weft
