#include "weft/base/math.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Math, powers_of_two) {
  struct Case {
    int64_t x;
    bool is;
    int64_t up, down;
  };
  const Case cases[] = {{0, false, 1, 0},
                        {1, true, 1, 1},
                        {2, true, 2, 2},
                        {3, false, 4, 2},
                        {1023, false, 1024, 512},
                        {1024, true, 1024, 1024},
                        {(1LL << 40) + 1, false, 1LL << 41, 1LL << 40}};
  for (const Case& c : cases) {
    EXPECT_EQ(is_power_of_two(c.x), c.is) << c.x;
    EXPECT_EQ(ceil_power_of_two(c.x), c.up) << c.x;
    EXPECT_EQ(floor_power_of_two(c.x), c.down) << c.x;
    if (c.x > 0) {
      EXPECT_EQ(int64_t{1} << floor_log2(c.x), c.down) << c.x;
    }
  }
  EXPECT_FALSE(is_power_of_two(-4));
}

TEST(Math, rounding) {
  EXPECT_EQ(ceil_divide(0, 4), 0);
  EXPECT_EQ(ceil_divide(1, 4), 1);
  EXPECT_EQ(ceil_divide(8, 4), 2);
  EXPECT_EQ(round_up(65, 64), 128);
  EXPECT_EQ(round_up(64, 64), 64);
  EXPECT_EQ(round_up(0, 64), 0);
}

}  // namespace
}  // namespace weft
