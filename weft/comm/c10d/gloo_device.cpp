// Gloo asks the kernel for any port, and takes no number: its constructor fails with an address that has a port. So while it
// makes a device, the bind() that it calls is the one below, which the program's symbols put before the system's.
#include "weft/comm/c10d/gloo_device.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <optional>

#include "weft/base/error.h"
#include "weft/base/port_range.h"

namespace weft {
namespace {

thread_local std::optional<PortRange> range_here;  // while a device is made, in the thread that makes it
thread_local bool has_bound = false;

int bind_here(int socket, const sockaddr* address, socklen_t length) {
  has_bound = true;
  return bind_within(range_here, socket, address, length) ? 0 : -1;
}

}  // namespace

std::shared_ptr<gloo::transport::Device> device_in_port_range(
    const std::function<std::shared_ptr<gloo::transport::Device>()>& make) {
  const auto range = port_range();
  if (!range) return make();
  struct Here {
    explicit Here(const PortRange& range) {
      range_here = range;
      has_bound = false;
    }
    ~Here() { range_here.reset(); }
  } const here(*range);
  std::shared_ptr<gloo::transport::Device> device;
  try {
    device = make();
  } catch (const std::exception& error) {
    throw Error(fmt::format("cannot open {}: {}", port_text(0, range), error.what()));
  }
  if (!has_bound) {
    throw Error(fmt::format("Gloo does not listen at {}: link weft into the program itself, not into a shared library of it",
                            port_text(0, range)));
  }
  return device;
}

}  // namespace weft

extern "C" int bind(int socket, const sockaddr* address, socklen_t length) noexcept {
  return weft::bind_here(socket, address, length);
}
