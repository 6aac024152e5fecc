#include "weft/comm/staged/copy_streams.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace weft {

c10::Stream pool_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

CopyStreams::CopyStreams(c10::Device device) : to_host(pool_stream(device)), from_host(pool_stream(device)) {}

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

}  // namespace weft
