// Gloo's listening socket, one per rank and group.
#pragma once

#include <gloo/transport/device.h>

#include <functional>
#include <memory>

namespace weft {

/// Returns the device from `make`, listening at a port within port_range() if that is set. Throws Error if it listens
/// elsewhere.
std::shared_ptr<gloo::transport::Device> device_in_port_range(
    const std::function<std::shared_ptr<gloo::transport::Device>()>& make);

}  // namespace weft
