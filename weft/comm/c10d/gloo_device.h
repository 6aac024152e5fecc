// Gloo's listening socket, one a rank and group.
#pragma once

#include <gloo/transport/device.h>

#include <functional>
#include <memory>

namespace weft {

/// What `make` makes, listening at a port of port_range.h's where there is a range. Throws Error where it came to listen
/// elsewhere.
std::shared_ptr<gloo::transport::Device> device_in_port_range(
    const std::function<std::shared_ptr<gloo::transport::Device>()>& make);

}  // namespace weft
