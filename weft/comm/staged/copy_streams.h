// CopyStreams: streams for copies between pinned host memory and a device, beside the work of its current stream. One per
// direction: what arrives is not copied behind what leaves, which waits for the work that made it.
#pragma once

#include <c10/core/Stream.h>

namespace weft {

/// A device's streams for copies, from its pool.
struct CopyStreams {
  explicit CopyStreams(c10::Device device);
  c10::Stream to_host;    ///< for copies to the host
  c10::Stream from_host;  ///< for copies to the device
};

/// A stream of a device's pool.
c10::Stream pool_stream(c10::Device device);
/// The calling thread's current stream of a device.
c10::Stream current_stream(c10::Device device);

}  // namespace weft
