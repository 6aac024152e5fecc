#include "weft/engine/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include "weft/comm/graph/device_graph.h"

namespace weft {

namespace {

/// Null if the device has no caching allocator, or its runtime has not been started in this process.
c10::DeviceAllocator* allocator_of(c10::Device device) {
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  return allocator && allocator->initialized() ? allocator : nullptr;
}

}  // namespace

std::optional<DeviceMemory> device_memory(c10::Device device) {
  c10::DeviceAllocator* allocator = allocator_of(device);
  if (!allocator) return std::nullopt;
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const c10::CachingDeviceAllocator::DeviceStats stats = allocator->getDeviceStats(with_index(device).index());
  return DeviceMemory{.allocated = stats.allocated_bytes[all].current,
                      .peak_allocated = stats.allocated_bytes[all].peak,
                      .peak_reserved = stats.reserved_bytes[all].peak};
}

std::optional<int64_t> device_bytes(c10::Device device) {
  c10::DeviceAllocator* allocator = allocator_of(device);
  if (!allocator) return std::nullopt;
  try {
    return static_cast<int64_t>(allocator->getMemoryInfo(with_index(device).index()).second);
  } catch (const c10::Error&) {  // not implemented
    return std::nullopt;
  }
}

void reset_device_peaks(c10::Device device) {
  if (c10::DeviceAllocator* allocator = allocator_of(device)) allocator->resetPeakStats(with_index(device).index());
}

}  // namespace weft
