#include "weft/engine/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace weft {

namespace {

/// Null if the device has no caching allocator, or its runtime has not been started in this process.
c10::DeviceAllocator* allocator_of(c10::Device device) {
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  return allocator && allocator->initialized() ? allocator : nullptr;
}

/// The device's index, or that of the current one.
c10::DeviceIndex index_of(c10::Device device) {
  return device.has_index() ? device.index() : c10::impl::VirtualGuardImpl(device.type()).getDevice().index();
}

}  // namespace

std::optional<DeviceMemory> device_memory(c10::Device device) {
  c10::DeviceAllocator* allocator = allocator_of(device);
  if (!allocator) return std::nullopt;
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const c10::CachingDeviceAllocator::DeviceStats stats = allocator->getDeviceStats(index_of(device));
  return DeviceMemory{.allocated = stats.allocated_bytes[all].current,
                      .peak_allocated = stats.allocated_bytes[all].peak,
                      .peak_reserved = stats.reserved_bytes[all].peak};
}

void reset_device_peaks(c10::Device device) {
  if (c10::DeviceAllocator* allocator = allocator_of(device)) allocator->resetPeakStats(index_of(device));
}

}  // namespace weft
