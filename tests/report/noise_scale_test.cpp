// NoiseScale alone: numbers worked out by hand, and an estimate from random norms that matches their distribution.
#include "weft/report/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace weft::noise_scale_test {
namespace {

TEST(NoiseScale, SolvesForBothUnknowns) {
  NoiseScale noise;
  EXPECT_FALSE(noise.estimate());
  noise.add(2.0 + 12.0 / 4, 4, 2.0 + 12.0 / 16, 16);  // |G|^2 = 2, tr(Sigma) = 12
  const NoiseEstimate one = *noise.estimate();
  EXPECT_NEAR(one.gradient, 2.0, 1e-12);
  EXPECT_NEAR(one.trace, 12.0, 1e-12);
  EXPECT_NEAR(*one.batch, 6.0, 1e-12);
  EXPECT_FALSE(one.spread) << "of one step";
  noise.add(2.0 + 12.0 / 2, 2, 2.0 + 12.0 / 64, 64);  // other batch sizes give the same estimate
  EXPECT_NEAR(*noise.estimate()->batch, 6.0, 1e-12);
  EXPECT_NEAR(*noise.estimate()->spread, 0.0, 1e-6);
  EXPECT_EQ(noise.estimate()->steps, 2);
}

TEST(NoiseScale, AveragesBothBeforeTheRatioAndLaterStepsWeighMore) {
  NoiseScale noise;
  const auto add = [&noise](double gradient, double trace) { noise.add(gradient + trace, 1, gradient + trace / 4, 4); };
  add(1.0, 10.0);
  add(3.0, 6.0);
  const double d = NoiseSums::kDecay;
  EXPECT_NEAR(noise.estimate()->gradient, (d * 1.0 + 3.0) / (d + 1.0), 1e-12);
  EXPECT_NEAR(*noise.estimate()->batch, (d * 10.0 + 6.0) / (d * 1.0 + 3.0), 1e-12);
  for (int i = 0; i < 2000; ++i) add(2.0, 30.0);
  EXPECT_NEAR(*noise.estimate()->batch, 15.0, 1e-6) << "the first steps are forgotten";
}

TEST(NoiseScale, GivesNoRatioIfTheGradientIsBelowItsNoise) {
  NoiseScale noise;
  noise.add(8.0, 1, 1.0, 4);  // less than a quarter: |G|^2 comes out negative
  EXPECT_LT(noise.estimate()->gradient, 0.0);
  EXPECT_FALSE(noise.estimate()->batch);
}

/// Over many runs the estimates vary as much as each one's spread predicts.
TEST(NoiseScale, ItsSpreadIsThatOfManyRuns) {
  constexpr int kRuns = 200, kSteps = 400;
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  double sum = 0.0, squares = 0.0, reported = 0.0;
  for (int run = 0; run < kRuns; ++run) {
    NoiseScale noise;
    for (int step = 0; step < kSteps; ++step) {
      noise.add(3.0 + 0.3 * normal(random), 4, 2.2 + 0.1 * normal(random), 16);
    }
    const NoiseEstimate estimate = *noise.estimate();
    sum += *estimate.batch;
    squares += *estimate.batch * *estimate.batch;
    reported += *estimate.spread;
  }
  const double mean = sum / kRuns, spread = std::sqrt(squares / kRuns - mean * mean);
  EXPECT_NEAR(reported / kRuns, spread, 0.2 * spread);
}

}  // namespace
}  // namespace weft::noise_scale_test
