// Gloo always lets the kernel choose a port: its constructor fails for an address with a port. So while it creates a device,
// the bind() below replaces the system's, because the program's symbols take precedence.
#include "weft/comm/c10d/gloo_device.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <optional>

#include "weft/base/error.h"
#include "weft/base/port_range.h"

namespace weft {
namespace {

thread_local std::optional<PortRange> range_here;  // set while this thread creates a device
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
    throw Error(fmt::format("Gloo does not listen at {}: link weft into the program itself, not into a shared library",
                            port_text(0, range)));
  }
  return device;
}

}  // namespace weft

extern "C" int bind(int socket, const sockaddr* address, socklen_t length) noexcept {
  return weft::bind_here(socket, address, length);
}
