// Rates fitted to samples whose rates are known.
#include "weft/train/measure/fit_rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "weft/program/simulate/operator_time.h"

namespace weft::fit_rates_test {
namespace {

constexpr double kNear = 1 << 22;

/// Samples of random loads, with times off by up to `noise`.
std::vector<OperatorSample> samples_of(const OperatorRate& rate, double noise) {
  std::mt19937 numbers(1);
  std::uniform_real_distribution<double> exponent(3.0, 8.0), off(-noise, noise);
  std::vector<OperatorSample> samples;
  for (int i = 0; i < 200; ++i) {
    OperatorSample sample{.of = OperatorClass::product, .load = {}};
    for (double* x : {&sample.load.work, &sample.load.bytes, &sample.load.extra}) *x = std::pow(10.0, exponent(numbers));
    const OperatorLoad& load = sample.load;
    sample.seconds = (rate.start_s + load.work * rate.work_s + load.bytes * rate.byte_s +
                      std::max(0.0, load.bytes - kNear) * rate.far_byte_s + load.extra * rate.extra_s) *
                     (1.0 + off(numbers));
    samples.push_back(sample);
  }
  return samples;
}

TEST(FitRates, FindsTheRatesOfSamples) {
  const OperatorRate known{
      .of = "product", .start_s = 1e-5, .work_s = 1e-11, .byte_s = 2e-11, .far_byte_s = 4e-11, .extra_s = 1e-10};
  for (const double noise : {0.0, 0.1}) {
    std::vector<FitError> errors;
    const OperatorRates rates = fit_rates(samples_of(known, noise), &errors);
    EXPECT_EQ(rates.near_bytes, kNear);
    ASSERT_EQ(rates.of.size(), 1u);
    const OperatorRate& found = rates.of[0];
    const double allowed = noise == 0.0 ? 1e-6 : 0.15;
    EXPECT_NEAR(found.start_s / known.start_s, 1.0, allowed);
    EXPECT_NEAR(found.work_s / known.work_s, 1.0, allowed);
    EXPECT_NEAR(found.byte_s / known.byte_s, 1.0, allowed);
    EXPECT_NEAR(found.far_byte_s / known.far_byte_s, 1.0, allowed);
    EXPECT_NEAR(found.extra_s / known.extra_s, 1.0, allowed);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].samples, 200);
    EXPECT_LE(errors[0].median, 1e-6 + noise);
    EXPECT_LE(errors[0].median, errors[0].largest);
  }
}

TEST(FitRates, FindsWhatStepsAdd) {
  std::mt19937 numbers(2);
  std::uniform_real_distribution<double> exponent(-6.0, -2.0);
  std::vector<BlockSample> samples;
  for (int i = 0; i < 50; ++i) {
    BlockSample sample{.bytes = 1e10 * std::pow(10.0, exponent(numbers)), .alone_s = std::pow(10.0, exponent(numbers))};
    sample.measured_s = sample.alone_s + 4e-5 + 3e-11 * sample.bytes;
    samples.push_back(sample);
  }
  const StepOverheads found = fit_overheads(samples);
  EXPECT_NEAR(found.instruction_s / 4e-5, 1.0, 1e-6);
  EXPECT_NEAR(found.byte_s / 3e-11, 1.0, 1e-6);
  for (BlockSample& sample : samples) sample.measured_s = 0.5 * sample.alone_s;
  samples.push_back({.bytes = 1.0, .alone_s = 1.0, .measured_s = 0.0});  // not measured
  const StepOverheads none = fit_overheads(samples);
  EXPECT_EQ(none.instruction_s, 0.0);
  EXPECT_EQ(none.byte_s, 0.0);

  const OperatorWork work{.kind = OperatorKind::memory, .bytes = 1000, .elements = 250};
  const OperatorRates alone{.near_bytes = kNear, .of = {{.of = "other", .byte_s = 1e-10}}};
  EXPECT_NEAR(rated_seconds(work, with_overheads(alone, found), "test") - rated_seconds(work, alone, "test"), 3e-8, 1e-12);
}

/// Simulated with as many threads as it was measured with, an operator takes what was measured.
TEST(FitRates, RatesOfOneThreadPriceAnyNumberOfThreads) {
  const OperatorWork work{.kind = OperatorKind::memory, .bytes = 1 << 24, .elements = 1 << 22};
  const OperatorRate known{
      .of = "other", .start_s = 1e-5, .work_s = 1e-11, .byte_s = 2e-11, .far_byte_s = 4e-11, .extra_s = 1e-10};
  const OperatorRates measured{.near_bytes = kNear, .of = {known}};
  for (const int threads : {1, 2, 8}) {
    Hardware hardware{.kind = "cpu", .cores = {.per_host = 8, .thread_power = 0.9, .threads = threads}};
    hardware.operators = OperatorCosts{.rates = rates_of_one_thread(measured, threads, 0.9)};
    const double seconds = operator_seconds(work, hardware);
    EXPECT_NEAR(seconds / rated_seconds(work, measured, "x"), 1.0, 1e-9) << threads;
  }
}

TEST(FitRates, NoTermIsNegative) {
  std::vector<OperatorSample> samples;
  for (const double bytes : {1e3, 1e4, 1e5, 1e6}) {  // faster than in proportion to their bytes
    samples.push_back(
        {.of = OperatorClass::other, .load = {.work = bytes / 4, .bytes = bytes}, .seconds = 1e-9 * bytes - 5e-7});
  }
  const OperatorRate rate = fit_rates(samples).of[0];
  for (const double term : {rate.start_s, rate.work_s, rate.byte_s, rate.far_byte_s, rate.extra_s}) EXPECT_GE(term, 0.0);
}

}  // namespace
}  // namespace weft::fit_rates_test
