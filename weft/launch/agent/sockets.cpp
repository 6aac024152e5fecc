#include "weft/launch/agent/sockets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "weft/base/error.h"
#include "weft/base/interfaces.h"
#include "weft/base/loopback.h"
#include "weft/base/stopwatch.h"

namespace weft {

namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses addresses_of(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (status != 0) throw Error(fmt::format("{}: {}", host, status == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(status)));
  return {found, freeaddrinfo};
}

void set_option(const FileDescriptor& socket, int level, int option, int value) {
  setsockopt(socket.get(), level, option, &value, sizeof value);
}

FileDescriptor connect_to(const addrinfo& address, double timeout_s, int& reason) {
  FileDescriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    reason = errno;
    return socket;
  }
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  reason = errno;
  if (reason != EINPROGRESS) return FileDescriptor();
  pollfd ready{socket.get(), POLLOUT, 0};
  if (poll(&ready, 1, static_cast<int>(timeout_s * 1000.0)) <= 0) {
    reason = ETIMEDOUT;
    return FileDescriptor();
  }
  socklen_t size = sizeof reason;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &reason, &size);
  return reason == 0 ? std::move(socket) : FileDescriptor();
}

}  // namespace

FileDescriptor listen_on_all_interfaces(int port) {
  try {
    FileDescriptor socket = listen_everywhere(port);
    fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
    return socket;
  } catch (const Error& error) {
    throw Error(fmt::format("cannot listen on port {} for the agents of other hosts: {}; is another launch there?", port,
                            error.what()));
  }
}

int free_port() { return port_of(listen_everywhere(0)); }

FileDescriptor connect_to(const std::string& host, int port, double timeout_s) {
  const Addresses addresses = addresses_of(host, port);
  const Stopwatch waited;
  int reason = 0;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    FileDescriptor socket = connect_to(*address, std::max(timeout_s - waited.seconds(), 0.1), reason);
    if (socket) return socket;
  }
  throw Error(fmt::format("{} port {}: {}", host, port, std::strerror(reason)));
}

FileDescriptor accept_from(const FileDescriptor& listening) {
  FileDescriptor socket(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

/// Only an own address can be bound to.
bool is_this_host(const std::string& name) {
  try {
    const Addresses addresses = addresses_of(name, 0);
    for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
      const FileDescriptor socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (socket && bind(socket.get(), address->ai_addr, address->ai_addrlen) == 0) return true;
    }
  } catch (const Error&) {
    // A name that only ssh knows, from its own configuration.
  }
  return false;
}

}  // namespace weft
