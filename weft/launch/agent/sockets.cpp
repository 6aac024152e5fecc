#include "weft/launch/agent/sockets.h"

#include <arpa/inet.h>
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

FileDescriptor bind_to_all(int family, int port) {
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return socket;
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, port != 0 ? 1 : 0);
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_in);
  if (family == AF_INET6) {
    set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    auto* own = reinterpret_cast<sockaddr_in6*>(&address);
    own->sin6_family = AF_INET6;
    own->sin6_addr = in6addr_any;
    own->sin6_port = htons(static_cast<uint16_t>(port));
    size = sizeof(sockaddr_in6);
  } else {
    auto* own = reinterpret_cast<sockaddr_in*>(&address);
    own->sin_family = AF_INET;
    own->sin_addr.s_addr = htonl(INADDR_ANY);
    own->sin_port = htons(static_cast<uint16_t>(port));
  }
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return FileDescriptor();
  return socket;
}

FileDescriptor bind_to_all(int port) {
  FileDescriptor socket = bind_to_all(AF_INET6, port);  // a kernel may have no IPv6
  if (!socket) socket = bind_to_all(AF_INET, port);
  if (!socket) {
    throw Error(fmt::format("cannot open port {} for the agents of other hosts: {}; is another launch there?", port,
                            std::strerror(errno)));
  }
  return socket;
}

std::string numeric(const sockaddr_storage& address, socklen_t size) {
  char text[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  const std::string name = text;
  return name.starts_with("::ffff:") ? name.substr(7) : name;
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
  FileDescriptor socket = bind_to_all(port);
  if (listen(socket.get(), SOMAXCONN) != 0) {
    throw Error(fmt::format("cannot listen on port {} for the agents of other hosts: {}", port, std::strerror(errno)));
  }
  return socket;
}

int listening_port(const FileDescriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw Error(fmt::format("cannot tell a socket's port: {}", std::strerror(errno)));
  }
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

int free_port() { return listening_port(bind_to_all(0)); }

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

std::string peer_address(const FileDescriptor& connection) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getpeername(connection.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return numeric(address, size);
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
