#include "weft/base/connect.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "weft/base/error.h"
#include "weft/base/tcp_options.h"
#include "weft/base/uninterrupted.h"

namespace weft {

namespace {

// Sets `connected` and returns "", or returns the reason for the failure.
std::string try_address(const addrinfo& address, const Deadline& deadline, FileDescriptor& connected) {
  FileDescriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return std::strerror(errno);
  send_at_once(socket.get());
  retry_each_second(socket.get());
  int error = ::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd entry{socket.get(), POLLOUT, 0};
    // Some addresses silently drop packets.
    const Deadline patience(std::min<std::chrono::milliseconds>(deadline.left(), std::chrono::seconds(2)));
    if (uninterrupted([&] { return ::poll(&entry, 1, static_cast<int>(patience.left().count())); }) <= 0) return "no answer";
    socklen_t length = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error != 0) return std::strerror(error);
  connected = std::move(socket);
  return "";
}

}  // namespace

FileDescriptor connect_to(const std::string& host, int port, const Deadline& deadline) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), fmt::to_string(port).c_str(), &wanted, &found);
  if (error != 0) throw Error(gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::string problem = "it has no address";
  FileDescriptor connected;
  for (const addrinfo* address = found; address != nullptr && !connected; address = address->ai_next) {
    problem = try_address(*address, deadline, connected);
  }
  if (!connected) throw Error(problem);
  return connected;
}

}  // namespace weft
