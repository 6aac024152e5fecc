#include "weft/comm/host/reach.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/file_descriptor.h"

namespace weft {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Sets `connected`, or returns why not.
std::string try_address(const addrinfo& address, const Deadline& deadline, FileDescriptor& connected) {
  FileDescriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return std::strerror(errno);
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) {
    connected = std::move(socket);
    return "";
  }
  if (errno != EINPROGRESS) return std::strerror(errno);
  pollfd entry{socket.get(), POLLOUT, 0};
  // A host may have several addresses, of which some swallow what is sent to them.
  const auto patience = std::min<std::chrono::milliseconds>(deadline.left(), std::chrono::seconds(2));
  if (::poll(&entry, 1, static_cast<int>(patience.count())) <= 0) return "no answer";
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return std::strerror(error);
  connected = std::move(socket);
  return "";
}

std::string try_host(const std::string& host, int port, const Deadline& deadline, FileDescriptor& connected) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), fmt::to_string(port).c_str(), &wanted, &found);
  if (error != 0) return gai_strerror(error);
  const Addresses addresses(found, &freeaddrinfo);
  std::string problem = "it has no address";
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    problem = try_address(*address, deadline, connected);
    if (connected) break;
  }
  return problem;
}

}  // namespace

FileDescriptor reach(const std::string& host, int port, const Deadline& deadline) {
  FileDescriptor connected;
  for (auto pause = std::chrono::milliseconds(2);; pause = std::min(pause * 2, std::chrono::milliseconds(100))) {
    const std::string problem = try_host(host, port, deadline, connected);
    if (connected) return connected;
    if (deadline.passed()) throw Error(problem);
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
  }
}

void wait_until_reachable(const std::string& host, int port, const Deadline& deadline) { reach(host, port, deadline); }

}  // namespace weft
