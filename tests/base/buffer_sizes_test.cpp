// buffer_sizes: sizes of buffers that blocks share.
#include "weft/base/buffer_sizes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace weft {
namespace {

TEST(BufferSizes, AreTheLargestBlockOfEachBuffer) {
  const std::vector<int64_t> block = {3, 10, 5, 7};
  const auto size_of = [&](size_t b) { return block[b]; };
  EXPECT_EQ(buffer_sizes({0, 1, 0, 1}, size_of), (std::vector<int64_t>{5, 10}));
  EXPECT_EQ(buffer_sizes({-1, 2, -1, 0}, size_of), (std::vector<int64_t>{7, 0, 10}));
  EXPECT_TRUE(buffer_sizes({}, size_of).empty());
}

}  // namespace
}  // namespace weft
