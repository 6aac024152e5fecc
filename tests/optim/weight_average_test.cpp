// The moving average of weights: its decay, its update, and its exchange with the weights.
#include "weft/optim/weight_average.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/refusal.h"

namespace weft::weight_average_test {
namespace {

TEST(WeightAverage, WarmsUpToItsDecay) {
  const WeightAverage warm{.decay = 0.9}, constant{.decay = 0.9, .warmup = false};
  EXPECT_EQ(warm.decay_after(0), 1.0 / 10.0);
  EXPECT_EQ(warm.decay_after(9), 10.0 / 19.0);
  EXPECT_EQ(warm.decay_after(79), 80.0 / 89.0);
  EXPECT_EQ(warm.decay_after(81), 0.9);
  EXPECT_EQ(warm.decay_after(1'000'000), 0.9);
  EXPECT_EQ(constant.decay_after(0), 0.9);
}

TEST(WeightAverage, TakesInAShareOfTheWeights) {
  const at::Tensor weights = at::randn({1000}), before = at::randn({1000}), average = before.clone();
  add_to_average(average, weights, 0.8);
  EXPECT_TRUE(at::allclose(average, 0.8 * before + 0.2 * weights, 1e-6, 1e-7));
}

TEST(WeightAverage, ExchangesEveryBit) {
  for (const int64_t numel : {int64_t{0}, int64_t{64}, (int64_t{3} << 16) + 64}) {
    const at::Tensor a = at::randn({numel}), b = at::randn({numel}), was_a = a.clone(), was_b = b.clone();
    exchange_values(a, b);
    EXPECT_TRUE(at::equal(a, was_b) && at::equal(b, was_a)) << numel;
  }
}

TEST(WeightAverage, IsToldAndChecked) {
  EXPECT_EQ(WeightAverage{}.text(), "none");
  EXPECT_EQ((WeightAverage{.decay = 0.999}.text()), "0.999 with warm-up");
  EXPECT_EQ((WeightAverage{.decay = 0.5, .warmup = false}.text()), "0.5");
  EXPECT_EQ(test::refusal([] { check_average({.decay = 0.9999}); }), "");
  EXPECT_EQ(test::refusal([] { check_average({.decay = 1.0}); }), "optimizer.ema is 1; it must be in [0, 1)");
  EXPECT_NE(test::refusal([] { check_average({.decay = std::nan("")}); }), "");
}

}  // namespace
}  // namespace weft::weight_average_test
