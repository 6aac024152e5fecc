// Counts of values: buckets as TensorFlow and PyTorch make them, parts that add up to the whole without rounding.
#include "weft/report/records/float_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace weft::float_counts_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// As torch.utils.tensorboard makes them.
std::vector<double> default_limits() {
  std::vector<double> above, all;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) above.push_back(limit);
  for (auto limit = above.rbegin(); limit != above.rend(); ++limit) all.push_back(-*limit);
  all.push_back(0.0);
  all.insert(all.end(), above.begin(), above.end());
  all.push_back(std::numeric_limits<double>::max());
  return all;
}

/// Of every magnitude, and each limit's neighbours.
std::vector<float> values() {
  std::mt19937 random(7);
  std::vector<float> all = {
      0.0f, -0.0f, 1e-45f, -1e-45f, 1e-12f, std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};
  for (int i = 0; i < 20000; ++i) {
    const auto size = std::pow(10.0, std::uniform_real_distribution<>(-44.0, 38.0)(random));
    all.push_back(static_cast<float>(i % 2 == 0 ? size : -size));
  }
  for (const double limit : default_limits()) {
    const auto near = static_cast<float>(limit);
    if (!std::isfinite(near)) continue;
    all.insert(all.end(), {near, std::nextafter(near, kInfinity), std::nextafter(near, -kInfinity)});
  }
  std::shuffle(all.begin(), all.end(), random);
  return all;
}

FloatCounts counts_of(const std::vector<float>& values, double divisor = 1.0) {
  FloatCounts counts;
  counts.add(values.data(), static_cast<int64_t>(values.size()), divisor);
  return counts;
}

void expect_equal(const ValueHistogram& a, const ValueHistogram& b) {
  EXPECT_EQ(a.limits, b.limits);
  EXPECT_EQ(a.counts, b.counts);
  EXPECT_EQ((std::vector{a.min, a.max, a.count, a.sum, a.squares}), (std::vector{b.min, b.max, b.count, b.sum, b.squares}));
}

TEST(FloatCounts, HaveTheBucketsOfOthers) {
  const std::vector<float> all = values();
  const std::vector<double> limits = default_limits();
  std::vector<double> expected(limits.size());
  for (const float value : all)
    ++expected[static_cast<size_t>(std::upper_bound(limits.begin(), limits.end(), value) - limits.begin())];
  const ValueHistogram found = *counts_of(all).histogram();
  ASSERT_EQ(found.limits.size(), limits.size() + 1);  // and a lower limit of the first
  EXPECT_TRUE(std::equal(limits.begin(), limits.end(), found.limits.begin() + 1));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.counts.begin() + 1));
  EXPECT_EQ(found.count, static_cast<double>(all.size()));
  EXPECT_EQ(found.min, *std::min_element(all.begin(), all.end()));
  EXPECT_EQ(found.max, *std::max_element(all.begin(), all.end()));
}

TEST(FloatCounts, OfPartsAddUpToTheWhole) {
  const std::vector<float> all = values();
  FloatCounts parts, reversed;
  for (size_t begin = 0; begin < all.size(); begin += 777) {
    const std::vector<float> part(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                  all.begin() + static_cast<std::ptrdiff_t>(std::min(begin + 777, all.size())));
    parts.add(counts_of(part, 3.0));
  }
  reversed.add(std::vector<float>(all.rbegin(), all.rend()).data(), static_cast<int64_t>(all.size()), 3.0);
  const ValueHistogram whole = *counts_of(all, 3.0).histogram();
  expect_equal(*parts.histogram(), whole);
  expect_equal(*reversed.histogram(), whole);
}

/// With sums that double precision loses.
TEST(FloatCounts, SumWithoutRounding) {
  const ValueHistogram found = *counts_of({3e30f, 0.25f, -3e30f, 1e-30f, -0.125f}).histogram();
  EXPECT_EQ(found.sum, 0.125 + static_cast<double>(1e-30f));
  const ValueHistogram squares = *counts_of({0.1f, -3.0f, 1e-44f}).histogram();
  EXPECT_EQ(squares.squares, 9.0 + static_cast<double>(0.1f) * static_cast<double>(0.1f));
}

TEST(FloatCounts, AreShownFromTheBucketBeforeTheFirst) {
  const ValueHistogram found = *counts_of({1.0f, 1.05f, 0.5f}).histogram();
  EXPECT_EQ(found.counts.front(), 0.0);
  EXPECT_EQ(found.counts[1], 1.0);
  EXPECT_LE(found.limits[0], 0.5);
  EXPECT_GT(found.limits[1], 0.5);
  EXPECT_GT(found.limits.back(), 1.05);
  EXPECT_LE(found.limits[found.limits.size() - 2], 1.05);
}

TEST(FloatCounts, LeaveOutWhatIsNotFinite) {
  const ValueHistogram found = *counts_of({NAN, 1.0f, kInfinity, -kInfinity, -NAN}).histogram();
  EXPECT_EQ(found.count, 1.0);
  EXPECT_EQ(found.sum, 1.0);
  EXPECT_EQ(found.min, 1.0);
  EXPECT_FALSE(counts_of({NAN}).histogram());
  EXPECT_FALSE(counts_of({}).histogram());
}

}  // namespace
}  // namespace weft::float_counts_test
