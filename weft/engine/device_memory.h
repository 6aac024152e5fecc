// device_memory: what the caching allocator of a device that is no CPU holds, by its own statistics.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace weft {

/// Bytes of one device, counted for the whole process: ranks that are threads and share a device share its figures.
struct DeviceMemory {
  int64_t allocated = 0;       ///< in tensors now, rounded as in base/target_device.h
  int64_t peak_allocated = 0;  ///< most since the last reset_device_peaks()
  int64_t peak_reserved = 0;   ///< most taken from the device, free parts included
};

/// Statistics of the device's allocator; nullopt for a device whose allocator has none, such as the CPU and the meta device.
std::optional<DeviceMemory> device_memory(c10::Device device);

/// Bytes that the device has; nullopt for one that does not say, such as the CPU.
std::optional<int64_t> device_bytes(c10::Device device);

/// Resets the peaks to what is held now; nothing for a device without statistics.
void reset_device_peaks(c10::Device device);

}  // namespace weft
