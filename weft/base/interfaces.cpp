#include "weft/base/interfaces.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/port_range.h"

namespace weft {

namespace {

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
};

std::vector<SocketAddress> resolve(const std::string& host, int port, int flags) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), fmt::to_string(port).c_str(), &wanted, &found);
  if (error != 0) throw Error(fmt::format("\"{}\" has no address: {}", host, gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<SocketAddress> all;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    address.length = entry->ai_addrlen;
    std::memcpy(&address.bytes, entry->ai_addr, entry->ai_addrlen);
    all.push_back(address);
  }
  return all;
}

std::string text_of(const SocketAddress& address) {
  char text[NI_MAXHOST] = {};
  if (address.length == 0 || getnameinfo(address.get(), address.length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  const std::string all = text, mapped = "::ffff:";
  // "::ffff:10.0.0.1": an IPv4 peer of a dual-stack socket.
  return all.rfind(mapped, 0) == 0 && all.find('.') != std::string::npos ? all.substr(mapped.size()) : all;
}

FileDescriptor listen_on(const SocketAddress& address, int port) {
  const auto range = port_range();
  FileDescriptor socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1, no = 0;
  // Lets a named port be reused while the kernel still remembers connections of an earlier run.
  bool good = socket && (port == 0 || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
  if (good && address.bytes.ss_family == AF_INET6) {
    good = setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0;
  }
  if (!good || !bind_within(range, socket.get(), address.get(), address.length) || listen(socket.get(), SOMAXCONN) != 0) {
    throw Error(fmt::format("cannot open {} on {}: {}", port_text(port, range), text_of(address), std::strerror(errno)));
  }
  return socket;
}

/// Only a local address can be bound.
bool is_own(const SocketAddress& address) {
  const FileDescriptor socket(::socket(address.bytes.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return socket && bind(socket.get(), address.get(), address.length) == 0;
}

}  // namespace

std::string local_address_towards(const std::string& host) {
  std::string problem;
  for (const SocketAddress& there : resolve(host, 9, 0)) {
    const FileDescriptor socket(::socket(there.bytes.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket && connect(socket.get(), there.get(), there.length) == 0) return own_address_of(socket);
    problem = std::strerror(errno);
  }
  throw Error(fmt::format("no network interface of this host leads to {}: {}", host, problem));
}

bool is_own_address(const std::string& address) { return is_own(resolve(address, 0, AI_NUMERICHOST).front()); }

bool is_this_host(const std::string& name) {
  try {
    const std::vector<SocketAddress> addresses = resolve(name, 0, 0);
    return std::any_of(addresses.begin(), addresses.end(), is_own);
  } catch (const Error&) {
    return false;  // a name known only to the ssh configuration
  }
}

bool is_loopback_address(const std::string& address) { return address == "::1" || address.rfind("127.", 0) == 0; }

FileDescriptor listen_at(const std::string& address, int port) {
  return listen_on(resolve(address, port, AI_PASSIVE).front(), port);
}

FileDescriptor listen_everywhere(int port) {
  const FileDescriptor probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return listen_at(probe ? "::" : "0.0.0.0", port);
}

FileDescriptor listen_towards(const std::string& host, int port) { return listen_at(local_address_towards(host), port); }

std::string own_address_as(const std::string& host) {
  for (const SocketAddress& address : resolve(host, 0, 0)) {
    const std::string text = text_of(address);
    if (!is_loopback_address(text) && is_own(address)) return text;
  }
  return {};
}

FileDescriptor listen_as(const std::string& host, int port) {
  const std::string address = own_address_as(host);
  return address.empty() ? listen_everywhere(port) : listen_at(address, port);
}

std::string own_address_of(const FileDescriptor& socket) {
  SocketAddress address;
  address.length = sizeof address.bytes;
  return getsockname(socket.get(), address.get(), &address.length) == 0 ? text_of(address) : "";
}

std::string peer_address_of(const FileDescriptor& socket) {
  SocketAddress address;
  address.length = sizeof address.bytes;
  return getpeername(socket.get(), address.get(), &address.length) == 0 ? text_of(address) : "";
}

}  // namespace weft
