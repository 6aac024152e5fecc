#include "weft/launch/agent/sockets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include "weft/base/error.h"
#include "weft/base/interfaces.h"
#include "weft/base/loopback.h"
#include "weft/base/tcp_options.h"

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
  if (!socket) return socket;
  send_at_once(socket.get());
  retry_each_second(socket.get());
  return socket;
}

}  // namespace weft
