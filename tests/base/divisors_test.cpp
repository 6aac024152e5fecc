#include "weft/base/divisors.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

TEST(Divisors, AreAscending) {
  EXPECT_EQ(divisors(1), std::vector<int>({1}));
  EXPECT_EQ(divisors(36), std::vector<int>({1, 2, 3, 4, 6, 9, 12, 18, 36}));
  EXPECT_EQ(divisors(2147483647), std::vector<int>({1, 2147483647}));
}

}  // namespace
}  // namespace weft
