// The device that a rank takes, for every kind of machine.
#include "weft/train/process/device.h"

#include <gtest/gtest.h>

#include "tests/support/refusal.h"

namespace weft::rank_device_test {
namespace {

constexpr SeenDevices kNone, kFour = {at::kCUDA, 4}, kOwnType = {at::kPrivateUse1, 4};

struct Row {
  const char* wish;
  LocalPlace place;
  SeenDevices seen;
  at::Device device;
};

TEST(RankDevice, IsTheOneAtTheLocalRank) {
  const Row rows[] = {
      {"cpu", {0, 1}, kNone, at::kCPU},
      {"cpu", {7, 8}, kFour, at::kCPU},
      {"auto", {0, 1}, kNone, at::kCPU},
      {"auto", {7, 8}, kNone, at::kCPU},
      {"auto", {0, 1}, kFour, {at::kCUDA, 0}},
      {"auto", {3, 4}, kFour, {at::kCUDA, 3}},
      {"cuda", {2, 3}, kFour, {at::kCUDA, 2}},
      {"auto", {7, 8, /*is_own=*/true}, {at::kCUDA, 1}, {at::kCUDA, 0}},
      {"cuda", {7, 8, /*is_own=*/true}, kFour, {at::kCUDA, 0}},
      {"auto", {3, 4}, kOwnType, {at::kPrivateUse1, 3}},
      {"cuda", {.rank = 3, .size = 4, .shares = true}, kFour, {at::kCUDA, 3}},
      {"auto", {.rank = 3, .size = 8, .shares = true}, kFour, {at::kCUDA, 1}},
      {"cuda", {.rank = 2, .size = 3, .shares = true}, {at::kCUDA, 2}, {at::kCUDA, 1}},
      {"auto", {.rank = 1, .size = 2, .shares = true}, kNone, at::kCPU},
  };
  for (const Row& row : rows) EXPECT_EQ(device_of_rank(row.wish, row.place, row.seen), row.device) << row.wish << row.device;
}

TEST(RankDevice, MoreRanksThanDevicesAreRefused) {
  struct Refused {
    const char* wish;
    LocalPlace place;
    SeenDevices seen;
    const char* what;
  };
  const Refused rows[] = {
      {"auto", {0, 8}, kFour, "run.device = \"auto\": 8 ranks on this host, but LibTorch sees 4 GPUs here"},
      {"auto", {0, 2}, {at::kCUDA, 1}, "run.device = \"auto\": 2 ranks on this host, but LibTorch sees 1 GPU here"},
      {"cuda", {5, 6}, kFour, "run.device = \"cuda\": 6 ranks on this host, but LibTorch sees 4 GPUs here"},
  };
  const Refused absent[] = {
      {"cuda", {0, 1}, kNone, "run.device = \"cuda\": 1 rank on this host, but LibTorch sees no such device here"},
      {"cuda",
       {.rank = 0, .size = 1, .shares = true},
       kOwnType,
       "run.device = \"cuda\": 1 rank on this host, but LibTorch sees no such device here"},
  };
  for (const Refused& row : rows) {
    EXPECT_EQ(test::refusal([&] { device_of_rank(row.wish, row.place, row.seen); }),
              std::string(row.what) +
                  "; start at most one rank per GPU, let ranks share GPUs by layout.backend = \"shm\" or \"gloo\", or set "
                  "run.device = \"cpu\"");
  }
  for (const Refused& row : absent) {
    EXPECT_EQ(test::refusal([&] { device_of_rank(row.wish, row.place, row.seen); }),
              std::string(row.what) + "; see that weft and its LibTorch are built for it, or set run.device = \"cpu\"");
  }
}

}  // namespace
}  // namespace weft::rank_device_test
