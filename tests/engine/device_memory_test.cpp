// Statistics of a device's allocator, taken from one that a test registers for a type of device that nothing else has.
#include "weft/engine/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include "weft/engine/memory_ledger.h"

namespace weft::device_memory_test {
namespace {

constexpr auto kType = c10::DeviceType::VE;

/// Keeps figures; gives out no memory.
class Figures : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t /*bytes*/) override { return {}; }
  void copy_data(void* to, const void* from, size_t count) const override { default_copy_data(to, from, count); }
  bool initialized() override { return is_started; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& /*memory*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].current = 100 + device;
    stats.allocated_bytes[0].peak = allocated_peak;
    stats.reserved_bytes[0].peak = 2 << 20;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex device) override { allocated_peak = 100 + device; }

  bool is_started = true;
  int64_t allocated_peak = 700;
};

Figures& figures() {
  static Figures one;
  static const bool registered = [] {
    c10::SetAllocator(kType, &one);
    return true;
  }();
  static_cast<void>(registered);
  return one;
}

TEST(DeviceMemory, IsWhatTheAllocatorCounts) {
  Figures& all = figures();
  all = Figures();
  const auto seen = device_memory({kType, 3});
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->allocated, 103);
  EXPECT_EQ(seen->peak_allocated, 700);
  EXPECT_EQ(seen->peak_reserved, 2 << 20);
  reset_device_peaks({kType, 3});
  EXPECT_EQ(device_memory({kType, 3})->peak_allocated, 103);
  all.is_started = false;
  EXPECT_FALSE(device_memory({kType, 3}));
}

TEST(DeviceMemory, IsUnknownWithoutACachingAllocator) {
  for (const c10::Device device : {c10::Device(c10::kCPU), c10::Device(c10::kMeta)}) {
    EXPECT_FALSE(device_memory(device)) << device;
    reset_device_peaks(device);
  }
}

TEST(DeviceMemory, IsThePeakOfALedgerOfThatDevice) {
  figures() = Figures();
  MemoryLedger on_host, on_device({kType, 0});
  for (MemoryLedger* ledger : {&on_host, &on_device}) ledger->add(MemoryCategory::weights, 50);
  EXPECT_EQ(on_host.peak_total(), 50);
  EXPECT_EQ(on_device.peak_total(), 700);
  on_device.reset_peaks();
  EXPECT_EQ(on_device.peak_total(), 100);
  EXPECT_EQ(on_device.peak()[static_cast<size_t>(MemoryCategory::weights)], 50) << "in host memory";
}

}  // namespace
}  // namespace weft::device_memory_test
