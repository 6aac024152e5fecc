// Thinned curves: the extremes and means of any number of points.
#include "weft/report/page/thinned.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace weft::thinned_test {
namespace {

TEST(Thinned, KeepsEveryExtreme) {
  for (const size_t count : {0U, 1U, 7U, 400U, 401U, 10'007U}) {
    std::vector<double> values;
    for (size_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<double>(i * i)));
    const std::vector<size_t> bounds = thinned_groups(count, 400);
    const ThinnedCurve curve = thinned(values, bounds);
    ASSERT_EQ(curve.mean.size(), std::min<size_t>(count, 400));
    if (count == 0) continue;
    EXPECT_EQ(*std::max_element(curve.high.begin(), curve.high.end()), *std::max_element(values.begin(), values.end()));
    EXPECT_EQ(*std::min_element(curve.low.begin(), curve.low.end()), *std::min_element(values.begin(), values.end()));
    EXPECT_EQ(thinned_ends(values, bounds).back(), values.back());
    for (size_t i = 0; i < curve.mean.size(); ++i) EXPECT_TRUE(curve.low[i] <= curve.mean[i] && curve.mean[i] <= curve.high[i]);
  }
}

TEST(Thinned, PassesOverWhatIsNoNumber) {
  const ThinnedCurve curve = thinned({1, NAN, NAN, NAN, 3, INFINITY}, {0, 2, 4, 6});
  EXPECT_EQ(curve.mean[0], 1.0);
  EXPECT_TRUE(std::isnan(curve.mean[1]));
  EXPECT_EQ(curve.high[2], 3.0);
}

}  // namespace
}  // namespace weft::thinned_test
