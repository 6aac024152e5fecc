#include "weft/launch/agent/sockets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "weft/base/error.h"
#include "weft/base/interfaces.h"
#include "weft/base/loopback.h"

namespace weft {

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

FileDescriptor accept_from(const FileDescriptor& listening) {
  FileDescriptor socket(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int yes = 1;
  if (socket) setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return socket;
}

}  // namespace weft
