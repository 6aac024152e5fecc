#include "weft/base/port_range.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

constexpr const char* kPortsVariable = "WEFT_PORTS";

/// Port field of an address of either family.
in_port_t& port_in(sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                       : reinterpret_cast<sockaddr_in&>(address).sin_port;
}

/// Calls the system directly, not bind(), which comm/c10d/gloo_device.cpp defines.
bool bind_to(int socket, const sockaddr_storage& address, socklen_t length) {
  return syscall(SYS_bind, socket, &address, length) == 0;
}

/// A different port each time, so processes that start together do not all try the same.
int first_to_try(const PortRange& range) {
  static std::atomic<uint64_t> calls = 0;
  const auto others = static_cast<uint64_t>(range.size() - range.num_meeting());
  if (others == 0) return 0;
  return range.num_meeting() + static_cast<int>(splitmix64((static_cast<uint64_t>(getpid()) << 32) + calls++) % others);
}

}  // namespace

std::optional<PortRange> parse_port_range(const std::string& text) {
  constexpr int kFirst = 1024, kLast = 65535;
  const size_t dash = text.find('-');
  if (dash == std::string::npos) return std::nullopt;
  const auto first = parse_number<int>(text.substr(0, dash)), last = parse_number<int>(text.substr(dash + 1));
  if (!first || !last || *first < kFirst || *last > kLast || *first > *last) return std::nullopt;
  return PortRange{*first, *last};
}

void use_ports(const std::string& text) {
  if (!text.empty()) setenv(kPortsVariable, text.c_str(), 1);
}

std::optional<PortRange> port_range() {
  const auto text = env_string(kPortsVariable);
  if (!text) return std::nullopt;
  const auto range = parse_port_range(*text);
  if (!range) {
    throw InputError(
        fmt::format("WEFT_PORTS=\"{}\": expected a range of ports within 1024-65535, like 20000-20100", shortened(*text)));
  }
  return range;
}

bool bind_within(const std::optional<PortRange>& range, int socket, const sockaddr* wanted, socklen_t length) {
  sockaddr_storage address{};
  std::memcpy(&address, wanted, length < sizeof address ? length : sizeof address);
  const bool is_internet = address.ss_family == AF_INET || address.ss_family == AF_INET6;
  if (!range || !is_internet || port_in(address) != 0) return bind_to(socket, address, length);
  const int first = first_to_try(*range);
  // If all are taken, also tries ports held only by old connections that the kernel still remembers.
  for (const int reuse : {0, 1}) {
    if (setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse) != 0) return false;
    for (int i = 0; i < range->size(); ++i) {
      port_in(address) = htons(static_cast<uint16_t>(range->first + (first + i) % range->size()));
      if (bind_to(socket, address, length)) return true;
      if (errno != EADDRINUSE) return false;
    }
  }
  return false;
}

std::string port_text(int port, const std::optional<PortRange>& range) {
  if (port != 0) return fmt::format("port {}", port);
  return range ? fmt::format("a port of {}-{} (run.ports or WEFT_PORTS)", range->first, range->last) : "a port";
}

}  // namespace weft
