#include "weft/launch/agent/sockets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <tuple>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/interfaces.h"
#include "weft/base/loopback.h"
#include "weft/base/tcp_options.h"

namespace weft {

namespace {

bool is_everywhere(const std::string& address) { return address == "::" || address == "0.0.0.0"; }

/// Returns this host's own address that `host`, as given to agents, resolves to; otherwise the reason why it has none.
std::pair<std::string, std::string> address_for(const std::string& host) {
  if (host == "localhost") return {"127.0.0.1", ""};
  if (is_loopback_address(host)) return {host, ""};
  try {
    const std::string address = own_address_as(host);
    return {address, address.empty() ? fmt::format("{} is not an address of this host", host) : ""};
  } catch (const Error& error) {  // a name that only the others can resolve, or not yet
    return {"", error.what()};
  }
}

}  // namespace

HeadSocket listen_for_agents(const std::string& host, int port) {
  HeadSocket head;
  std::string address;
  if (!host.empty()) std::tie(address, head.why_everywhere) = address_for(host);
  try {
    head.socket = address.empty() ? listen_everywhere(port) : listen_at(address, port);
  } catch (const Error& error) {
    throw Error(fmt::format("cannot listen for agents of other hosts: {}; is another launch running?", error.what()));
  }
  fcntl(head.socket.get(), F_SETFL, fcntl(head.socket.get(), F_GETFL) | O_NONBLOCK);
  return head;
}

FileDescriptor listen_beside(const FileDescriptor& listening) { return listen_at(own_address_of(listening), 0); }

std::string address_here(const FileDescriptor& listening) {
  const std::string address = own_address_of(listening);
  return is_everywhere(address) ? "127.0.0.1" : address;
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
