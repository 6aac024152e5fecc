#include "weft/base/median.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Median, is_the_middle_value) {
  EXPECT_EQ(median({3.0, 1.0, 100.0}), 3.0);
  EXPECT_EQ(median({4.0, 1.0, 3.0, 2.0}), 3.0) << "the upper of two";
  EXPECT_EQ(median({7.0}), 7.0);
  EXPECT_EQ(median({}), 0.0);
}

}  // namespace
}  // namespace weft
