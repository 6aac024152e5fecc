// Times from users, which clocks must be able to add.
#include "weft/base/time_limit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "weft/base/deadline.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

TEST(TimeLimit, IsTheRequestedTimeUpToACentury) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(time_limit(1.5), milliseconds(1500));
  EXPECT_EQ(time_limit(1e-9), milliseconds(1)) << "not zero";
  for (const double most : {1e12, 1e300, kInf}) EXPECT_EQ(time_limit(most), kForever) << most;
  for (const double zero : {0.0, -1.0, -kInf, std::nan("")}) EXPECT_EQ(time_limit(zero), milliseconds(0)) << zero;
  EXPECT_EQ(time_limit(milliseconds::max()), kForever);
  EXPECT_EQ(time_limit(milliseconds::min()), milliseconds(0));
}

TEST(TimeLimit, FitsIntoADeadline) {
  const Deadline forever = milliseconds::max();
  EXPECT_FALSE(forever.passed());
  EXPECT_GT(forever.left(), kForever - std::chrono::hours(1));
  EXPECT_FALSE(Deadline(milliseconds(0)).with_at_least(milliseconds::max()).passed());
  EXPECT_TRUE(Deadline(milliseconds::min()).passed());
}

}  // namespace
}  // namespace weft
