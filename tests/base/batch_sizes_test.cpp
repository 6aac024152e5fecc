#include "weft/base/batch_sizes.h"

#include <gtest/gtest.h>

namespace weft::batch_sizes_test {
namespace {

TEST(BatchSizes, WithoutARampEveryStepHasTheSameBatch) {
  const BatchSizes sizes(8);
  EXPECT_EQ(sizes.num_phases(), 1);
  for (const int64_t step : {0, 1, 1000}) {
    EXPECT_EQ(sizes.at(step), 8);
    EXPECT_EQ(sizes.samples_before(step), 8 * step);
  }
  EXPECT_EQ(sizes.steps_for(16.0), 2.0);
  EXPECT_EQ(sizes.steps_for(17.0), 3.0);
}

TEST(BatchSizes, ARampCountsEachStepOnce) {
  const BatchSizes sizes(16, {{2, 3}, {4, 2}});
  EXPECT_EQ(sizes.num_phases(), 3);
  int64_t before = 0;
  for (int64_t step = 0; step < 9; ++step) {
    const int64_t expected = step < 3 ? 2 : step < 5 ? 4 : 16;
    EXPECT_EQ(sizes.at(step), expected) << step;
    EXPECT_EQ(sizes.samples_before(step), before) << step;
    if (before > 0) {
      EXPECT_EQ(sizes.steps_for(static_cast<double>(before)), static_cast<double>(step)) << step;
      EXPECT_EQ(sizes.steps_for(static_cast<double>(before) + 0.5), static_cast<double>(step + 1)) << step;
    }
    before += expected;
  }
  EXPECT_EQ(sizes.phase_at(2), 0);
  EXPECT_EQ(sizes.phase_at(3), 1);
  EXPECT_EQ(sizes.first_step(2), 5);
}

}  // namespace
}  // namespace weft::batch_sizes_test
