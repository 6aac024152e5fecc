// Rounding of the caching allocator, against figures worked out by hand from its rules.
#include "weft/base/target_device.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;

TEST(TargetDevice, ARequestIsRoundedAsByTheAllocator) {
  struct Row {
    int64_t requested, allocated, reserved;
  };
  const Row rows[] = {
      {0, 0, 0},
      {1, 512, 2 * kMiB},
      {512, 512, 2 * kMiB},
      {513, 1024, 2 * kMiB},
      {kMiB, kMiB, 2 * kMiB},
      {kMiB + 1, kMiB + 512, 20 * kMiB},
      {10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB},
      {10 * kMiB, 10 * kMiB, 10 * kMiB},
      {10 * kMiB + 1, 10 * kMiB + 512, 12 * kMiB},  // the rest, over 1 MiB, is split off
      {11 * kMiB - 512, 11 * kMiB - 512, 12 * kMiB},
      {11 * kMiB, 12 * kMiB, 12 * kMiB},  // a rest of 1 MiB stays
      {300 * kMiB, 300 * kMiB, 300 * kMiB},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(allocated_bytes(TargetDevice::gpu, row.requested), row.allocated) << row.requested;
    EXPECT_EQ(reserved_bytes(TargetDevice::gpu, {row.requested}), row.reserved) << row.requested;
    EXPECT_EQ(allocated_bytes(TargetDevice::cpu, row.requested), row.requested);
    EXPECT_EQ(reserved_bytes(TargetDevice::cpu, {row.requested}), row.requested);
  }
}

TEST(TargetDevice, RequestsOfOneSizeClassShareSegments) {
  const auto reserved = [](const std::vector<int64_t>& requests) { return reserved_bytes(TargetDevice::gpu, requests); };
  EXPECT_EQ(reserved({}), 0);
  EXPECT_EQ(reserved({kKiB, kKiB, kKiB}), 2 * kMiB);
  EXPECT_EQ(reserved({kMiB, kMiB, 1}), 4 * kMiB);
  EXPECT_EQ(reserved({9 * kMiB, 9 * kMiB}), 20 * kMiB);
  EXPECT_EQ(reserved({9 * kMiB, 9 * kMiB, 9 * kMiB}), 40 * kMiB);
  EXPECT_EQ(reserved({kKiB, 2 * kMiB, 11 * kMiB, 11 * kMiB}), (2 + 20 + 12 + 12) * kMiB);
}

}  // namespace
}  // namespace weft
