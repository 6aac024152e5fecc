#include "weft/base/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace weft {
namespace {

ExactSum sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (double x : values) sum.add(x);
  return sum;
}

// Adds word by word, like ranks.
ExactSum joined(ExactSum a, ExactSum b) {
  a.carry();
  b.carry();
  for (size_t i = 0; i < a.words().size(); ++i) a.words()[i] += b.words()[i];
  return a;
}

// Squares of float32 over (nearly) its whole range, and products of these that no float64 sum represents.
std::vector<double> random_squares(unsigned seed, int count) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> mantissa(-1.0f, 1.0f);
  std::uniform_int_distribution<int> exponent(-120, 120);
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    const auto x = static_cast<double>(std::ldexp(mantissa(engine), exponent(engine)));
    values.push_back(x * x);
  }
  return values;
}

double ulp(double x) { return std::nextafter(x, std::numeric_limits<double>::infinity()) - x; }

TEST(ExactSum, order_and_grouping_change_no_bit) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<double> values = random_squares(seed, 500);
    const double expected = sum_of(values).value();
    std::mt19937 engine(seed);
    for (int shuffle = 0; shuffle < 5; ++shuffle) {
      std::shuffle(values.begin(), values.end(), engine);
      EXPECT_EQ(sum_of(values).value(), expected);
      for (int ranks : {2, 3, 8}) {
        ExactSum total;
        std::vector<ExactSum> parts(ranks);
        for (double x : values) parts[engine() % ranks].add(x);
        for (const ExactSum& part : parts) total = joined(total, part);
        EXPECT_EQ(total.value(), expected) << ranks;
      }
    }
  }
}

TEST(ExactSum, agrees_with_a_wider_sum) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> values(-4.0f, 4.0f);
    ExactSum sum;
    long double expected = 0.0L;
    for (int i = 0; i < 1000; ++i) {
      const double x = values(engine);
      sum.add(x * x);
      expected += static_cast<long double>(x * x);
    }
    EXPECT_LE(std::abs(sum.value() - static_cast<double>(expected)), 2 * ulp(static_cast<double>(expected))) << seed;
  }
}

TEST(ExactSum, known_values) {
  const double big = std::ldexp(1.0, 200), small = std::ldexp(1.0, -200), digit = std::ldexp(1.0, 32);
  struct Case {
    const char* what;
    std::vector<double> values;
    double expected;
  };
  const Case cases[] = {
      {"nothing", {}, 0.0},
      {"zero", {0.0, -0.0}, 0.0},
      {"one", {1.0}, 1.0},
      {"a fraction", {0.1}, 0.1},
      {"all bits of the mantissa", {0x1.fffffffffffffp0}, 0x1.fffffffffffffp0},
      {"a carry into the next digit", {digit - 1.0, 1.0}, digit},
      {"a carry through many digits", {big - std::ldexp(1.0, 148), std::ldexp(1.0, 148)}, big},
      {"far apart", {big, small}, big},
      {"exact integers", {3.0, 5.0, 1e15, 1.0}, 1e15 + 9.0},
      // In float64 and this order, each small one would be lost.
      {"many small ones and a large one", {0x1p53, 1.0, 1.0, 1.0, 1.0}, 0x1p53 + 4.0},
  };
  for (const Case& c : cases) EXPECT_EQ(sum_of(c.values).value(), c.expected) << c.what;
}

TEST(ExactSum, single_values_come_back) {
  for (double x : random_squares(1, 2000)) EXPECT_EQ(sum_of({x}).value(), x);
  for (int exponent = -260; exponent <= 286; ++exponent) {
    const double x = std::ldexp(0x1.8000000000001p0, exponent);
    EXPECT_EQ(sum_of({x}).value(), x) << exponent;
  }
}

TEST(ExactSum, ends_of_the_range) {
  const double lowest = std::ldexp(1.0, -320);
  const double float_max = std::numeric_limits<float>::max(), float_min = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(sum_of({lowest}).value(), lowest);
  EXPECT_EQ(sum_of({lowest, lowest}).value(), 2 * lowest);
  EXPECT_EQ(sum_of({lowest / 2}).value(), 0.0);
  EXPECT_EQ(sum_of({lowest * 1.5}).value(), lowest) << "bits below the lowest are dropped";
  EXPECT_EQ(sum_of({std::numeric_limits<double>::denorm_min()}).value(), 0.0);
  EXPECT_EQ(sum_of({float_min * float_min}).value(), float_min * float_min);
  EXPECT_EQ(sum_of({float_max * float_max}).value(), float_max * float_max);
  const double highest = std::ldexp(0x1.fffffffffffffp0, 286);
  EXPECT_EQ(sum_of({highest}).value(), highest);
  EXPECT_TRUE(std::isnan(sum_of({std::numeric_limits<double>::max()}).value())) << "above the range";
}

TEST(ExactSum, any_number_of_additions) {
  constexpr int kDoublings = 60;
  for (const int exponent : {-300, 0, 286}) {
    ExactSum sum = sum_of({std::ldexp(0x1.fffffffffffffp0, exponent)});
    const double one = sum.value();
    for (int doubling = 0; doubling < kDoublings; ++doubling) sum = joined(sum, sum);
    EXPECT_EQ(sum.value(), std::ldexp(one, kDoublings)) << exponent;
  }
}

TEST(ExactSum, a_word_is_carried_before_it_overflows) {
  constexpr int kUnit = 10;  // the word with lowest bit 1
  ExactSum sum;
  sum.words()[kUnit] = (int64_t{1} << 62) - 1;
  sum.add(1.0);
  EXPECT_EQ(sum.words()[kUnit], 0);
  EXPECT_EQ(sum.words()[kUnit + 1], int64_t{1} << 30);
  EXPECT_EQ(sum.value(), 0x1p62);
}

TEST(ExactSum, non_finite_values_show) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (double x : {infinity, -infinity, nan, -1.0}) {
    EXPECT_TRUE(std::isnan(sum_of({x}).value())) << x;
    EXPECT_TRUE(std::isnan(sum_of({1.0, x, 2.0}).value())) << x;
    EXPECT_TRUE(std::isnan(joined(sum_of({1.0}), sum_of({x})).value())) << x;
    EXPECT_TRUE(std::isnan(joined(sum_of({x}), sum_of({x})).value())) << x;
  }
  EXPECT_EQ(sum_of({infinity, nan, 1.0}).words()[ExactSum::kWords], 2);
}

}  // namespace
}  // namespace weft
