// Device kernels: their CPU path, which the checked device runs, beside plain arithmetic; for every cut the same bits.
#include "weft/nn/device_kernels/device_kernels.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <ostream>
#include <utility>
#include <vector>

#include "weft/nn/device_kernels/step_numbers.h"
#include "weft/nn/device_kernels/update_kernels.h"
#include "weft/nn/exact_sums.h"
#include "weft/nn/random.h"
#include "weft/optim/largest.h"
#include "weft/optim/squares.h"

namespace weft {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinite = std::numeric_limits<float>::infinity();

ExactSum squares_by_kernel(const std::vector<at::Tensor>& ranges, const std::vector<int64_t>& places) {
  const at::Tensor words = exact_sums(1, at::kCPU);
  add_squares_of(ranges, places, words[0]);
  return sums_in(words).front();
}

class DeviceSquares : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(DeviceSquares, OfAnyCutAtRunsHaveTheBitsOfTheHost) {
  const at::Tensor x = at::randn({1000}, at::detail::createCPUGenerator(3)).mul_(1e3).to(GetParam());
  for (const int64_t place : {0, 64, 5, 63}) {
    const at::Tensor words = exact_sums(1, at::kCPU);
    add_squares(x.to(at::kFloat), place, words[0]);
    const ExactSum expected = sums_in(words).front();
    EXPECT_EQ(squares_by_kernel({x}, {place}).words(), expected.words()) << place;
    const int64_t cut = 128 - place % 64;  // at the end of a run
    EXPECT_EQ(squares_by_kernel({x.narrow(0, 0, cut), x.narrow(0, cut, 1000 - cut)}, {place, place + cut}).value(),
              expected.value())
        << place;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceSquares, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return c10::toString(info.param); });

TEST(DeviceSquares, OfAValueThatIsNotFiniteAreNotANumber) {
  for (const float bad : {kNan, kInfinite, -kInfinite}) {
    const at::Tensor x = at::zeros({200});
    x[150] = bad;
    EXPECT_TRUE(std::isnan(squares_by_kernel({x}, {0}).value())) << bad;
  }
  EXPECT_EQ(squares_by_kernel({at::zeros({0})}, {0}).value(), 0.0);
}

TEST(DeviceLargest, IsTheLargestMagnitudeOfAllRanges) {
  struct Row {
    float value;
    float expected;
  };
  for (const Row& row : {Row{-7.5f, 7.5f}, Row{0.25f, 3.0f}, Row{-kInfinite, kInfinite}}) {
    const at::Tensor first = at::full({70}, -3.0f), second = at::zeros({130}), most = at::zeros({1}, at::kLong);
    second[77] = row.value;
    raise_to_largest({first, second.to(at::kBFloat16)}, most);
    EXPECT_EQ(magnitude_of(most.item<int64_t>()), row.expected);
  }
  const at::Tensor most = at::zeros({1}, at::kLong);
  raise_to_largest({at::full({3}, kNan)}, most);
  EXPECT_TRUE(std::isnan(magnitude_of(most.item<int64_t>())));
}

/// Losses of 3 places, 5 targets each, of 8 nominal ones, whose gradients' norm is 6 before the division.
struct NumbersRow {
  const char* name;
  double loss = 2.0, count = 5.0, squares = 36.0, clip = 0.0, most = 1e38;
  bool has_norm = true;
  double norm = 6.0 / 0.625, by = 0.625;  ///< 15 targets of 3 x 8
  bool is_refused = false;
};
void PrintTo(const NumbersRow& row, std::ostream* out) { *out << row.name; }

class StepNumbers : public ::testing::TestWithParam<NumbersRow> {};

TEST_P(StepNumbers, AreTheHosts) {
  const NumbersRow& row = GetParam();
  const at::Tensor losses = at::full({11}, 8.0, at::kDouble), gate = at::zeros({kGateNumbers});
  losses.narrow(0, 0, 3).fill_(row.loss);
  losses.narrow(0, 3, 3).fill_(row.count);
  losses[9] = 1.0, losses[10] = 7.0;  // votes
  at::Tensor found = exact_sums(1, at::kCPU);
  if (row.has_norm) {
    ExactSum sum;
    sum.add(row.squares);
    std::copy(sum.words().begin(), sum.words().end(), found.mutable_data_ptr<int64_t>());
  } else {
    found = at::full({1}, static_cast<int64_t>(std::bit_cast<uint32_t>(static_cast<float>(row.squares))), at::kLong);
  }
  const StepFacts facts{
      .places = 3, .votes = 2, .all_micro_batches = 3.0, .has_norm = row.has_norm, .clip = row.clip, .most = row.most};
  const at::Tensor numbers = step_numbers(facts, {.losses = losses, .found = found, .gate = gate});
  EXPECT_EQ(numbers[kOutcome].item<double>(), row.is_refused ? 1.0 : 0.0);
  EXPECT_EQ(gate[1].item<float>(), row.is_refused ? 1.0f : 0.0f);
  EXPECT_EQ(numbers[kStepNumbers + 1].item<double>(), 7.0);
  if (row.is_refused) {
    losses.fill_(1.0);
    step_numbers({.places = 3, .has_norm = false, .most = 1e38},
                 {.losses = losses, .found = at::zeros({1}, at::kLong), .gate = gate});
    EXPECT_EQ(gate[1].item<float>(), 1.0f) << "a gate that refuses keeps doing so";
    return;
  }
  EXPECT_EQ(numbers[0].item<double>(), row.loss / row.count);
  EXPECT_EQ(numbers[1].item<double>(), 3 * row.count);
  EXPECT_EQ(numbers[2].item<double>(), row.norm);
  EXPECT_EQ(gate[0].item<float>(), static_cast<float>(row.by));
  EXPECT_EQ(numbers[kStepNumbers + 2].item<double>(), row.by);
}

/// Of four small batches of three micro-batches' samples, beside two votes.
TEST(SmallBatches, AreAmongTheNumbersOfAStep) {
  const at::Tensor losses = at::full({9 + kSumWords + 2}, 8.0, at::kDouble), gate = at::zeros({kGateNumbers});
  losses.narrow(0, 3, 3).fill_(4.0);
  ExactSum sum;
  sum.add(50.0);
  std::copy(sum.words().begin(), sum.words().end(), losses.mutable_data_ptr<double>() + 9);
  const StepFacts facts{.places = 3, .votes = 2, .all_micro_batches = 3.0, .most = 1e38, .small_batches = 4.0};
  const at::Tensor numbers = step_numbers(facts, {.losses = losses, .found = exact_sums(1, at::kCPU), .gate = gate});
  ASSERT_EQ(numbers.numel(), kStepNumbers + 2 + 1 + kDeviceNumbers);
  EXPECT_EQ(numbers[kStepNumbers + 1].item<double>(), 8.0);
  EXPECT_EQ(numbers[kStepNumbers + 2].item<double>(), 50.0 * 6.0 * 6.0 / 4.0);  // 12 targets of 3 x 8
  EXPECT_EQ(numbers[kStepNumbers + 3].item<double>(), 0.5);
}

INSTANTIATE_TEST_SUITE_P(
    Table, StepNumbers,
    ::testing::Values(NumbersRow{.name = "plain"},
                      NumbersRow{.name = "clipped", .clip = 2.4, .by = 0.625 / (2.4 / (6.0 / 0.625))},
                      NumbersRow{.name = "within_the_clip", .clip = 9.7},
                      NumbersRow{.name = "largest", .squares = 3.0, .has_norm = false, .norm = 0.0},
                      NumbersRow{.name = "loss_not_finite", .loss = kNan, .is_refused = true},
                      NumbersRow{.name = "no_targets", .count = 0.0, .is_refused = true},
                      NumbersRow{.name = "norm_not_finite", .squares = kInfinite, .is_refused = true},
                      NumbersRow{.name = "norm_too_large", .most = 9.0, .is_refused = true},
                      NumbersRow{.name = "clipped_enough", .clip = 8.0, .most = 9.0, .by = 0.625 / (8.0 / (6.0 / 0.625))},
                      NumbersRow{.name = "factor_too_large", .squares = 1e200, .clip = 1e-39, .is_refused = true},
                      NumbersRow{.name = "largest_infinite", .squares = kInfinite, .has_norm = false, .is_refused = true},
                      NumbersRow{
                          .name = "largest_too_large", .squares = 3.0, .most = 4.0, .has_norm = false, .is_refused = true}),
    [](const auto& info) { return info.param.name; });

/// Steps of one loss whose gradients' squares are given, from a scale and its good steps on; the host knows of no skip.
struct ScaleRow {
  const char* name;
  std::vector<double> squares;
  LossScale before, after;
  std::vector<double> outcomes;  ///< by step
  float number = 0.0f;           ///< of the last step's update, of those issued
  double loss = 1.0;
  bool has_bad_statistics = false;
};
void PrintTo(const ScaleRow& row, std::ostream* out) { *out << row.name; }

class StepScales : public ::testing::TestWithParam<ScaleRow> {};

TEST_P(StepScales, AreHalvedAndDoubledOnTheDevice) {
  const ScaleRow& row = GetParam();
  const at::Tensor losses = at::full({3}, 8.0, at::kDouble), gate = at::zeros({kGateNumbers}), rate = at::zeros({2});
  losses[0] = row.loss;
  const at::Tensor scale = at::zeros({kLossScaleWords}, at::kLong);
  auto* on_device = static_cast<DeviceLossScale*>(scale.mutable_data_ptr());
  *on_device = {.known_skips = row.before.skipped_steps, .loss = row.before};
  for (size_t i = 0; i < row.squares.size(); ++i) {
    ExactSum sum;
    sum.add(row.squares[i]);
    const at::Tensor found = exact_sums(1, at::kCPU);
    std::copy(sum.words().begin(), sum.words().end(), found.mutable_data_ptr<int64_t>());
    if (row.has_bad_statistics) found[0][kSumDigits] += kBadStatistics;
    rate[1] = static_cast<float>(i + 1);
    const double now = on_device->loss.scale;
    const at::Tensor numbers = step_numbers({.places = 1, .most = 1e38},
                                            {.losses = losses, .found = found, .gate = gate, .scale = scale, .rate = rate});
    EXPECT_EQ(numbers[kOutcome].item<double>(), row.outcomes[i]) << "step " << i;
    EXPECT_EQ(gate[0].item<double>(), now) << "step " << i;
    EXPECT_EQ(gate[1].item<float>(), row.outcomes[i] == kStepMade ? 0.0f : 1.0f) << "step " << i;
  }
  EXPECT_EQ(on_device->loss.scale, row.after.scale);
  EXPECT_EQ(on_device->loss.good_steps, row.after.good_steps);
  EXPECT_EQ(on_device->loss.skipped_steps, row.after.skipped_steps);
  EXPECT_EQ(rate[1].item<float>(), row.number);
}

INSTANTIATE_TEST_SUITE_P(
    Table, StepScales,
    ::testing::Values(
        ScaleRow{"good", {1.0, 1.0}, {4.0, 0, 3}, {4.0, 2, 3}, {kStepMade, kStepMade}, 2.0f},
        ScaleRow{"skipped", {1.0, kInfinite, 1.0}, {4.0, 7, 3}, {2.0, 1, 4}, {kStepMade, kStepSkipped, kStepMade}, 2.0f},
        ScaleRow{"grown", {1.0, 1.0}, {4.0, 1998, 0}, {8.0, 0, 0}, {kStepMade, kStepMade}, 2.0f},
        ScaleRow{"largest", {1.0}, {0x1p64, 1999, 0}, {0x1p64, 0, 0}, {kStepMade}, 1.0f},
        ScaleRow{"smallest", {kInfinite, kInfinite}, {2.0, 5, 0}, {1.0, 0, 1}, {kStepSkipped, kStepRefused}, 1.0f},
        ScaleRow{"after_a_refusal", {kInfinite, 1.0}, {1.0, 5, 0}, {1.0, 5, 0}, {kStepRefused, kStepRefused}, 2.0f},
        ScaleRow{"bad_statistics", {1.0}, {4.0, 5, 0}, {4.0, 5, 0}, {kStepRefused}, 1.0f, 1.0, true},
        ScaleRow{"loss_not_finite", {kInfinite}, {4.0, 5, 0}, {4.0, 5, 0}, {kStepRefused}, 1.0f, kNan}),
    [](const auto& info) { return info.param.name; });

/// Of three tensors in one range, the last without a ratio.
TEST(DeviceRatios, AreTheHosts) {
  const at::Tensor weights = at::randn({300}, at::detail::createCPUGenerator(5)), moves = weights.mul(0.25).add(0.5);
  const std::vector<ScaledPart> parts = {{0, 64, 0}, {64, 200, 1}, {200, 300, 2}};
  const at::Tensor sums = exact_sums(6, at::kCPU), expected = exact_sums(6, at::kCPU);
  std::vector<at::Tensor> ranges;
  std::vector<int64_t> places, rows;
  for (const ScaledPart& part : parts) {
    for (const at::Tensor& values : {weights, moves}) {
      ranges.push_back(values.narrow(0, part.begin, part.end - part.begin));
      places.push_back(part.begin);
      rows.push_back(static_cast<int64_t>(rows.size()));
      add_squares(ranges.back(), part.begin, expected[rows.back()]);
    }
  }
  add_squares_each(ranges, places, rows, sums);
  EXPECT_TRUE(sums.equal(expected));
  const at::Tensor decays = at::full({3}, 0.1, at::kDouble),
                   numbers = at::full({kStepNumbers + kDeviceNumbers}, 4.0, at::kDouble);
  decays[2] = kNan;
  for (const TrustRule& rule :
       {TrustRule{.has_decay = true, .trust = 0.02, .eps = 1e-8}, TrustRule{}, TrustRule{.limit = 1e-3}}) {
    const at::Tensor ratios = trust_ratios(rule, sums, decays, numbers), scaled = moves.clone();
    scale_parts(scaled, parts, ratios);
    for (const ScaledPart& part : parts) {
      const int64_t numel = part.end - part.begin;
      const double w = std::sqrt(weights.narrow(0, part.begin, numel).to(at::kDouble).square().sum().item<double>());
      const double u = std::sqrt(moves.narrow(0, part.begin, numel).to(at::kDouble).square().sum().item<double>());
      double ratio = rule.has_decay ? rule.trust * w / (u / 4.0 + 0.1 * w + rule.eps) : w / u;
      if (rule.limit > 0.0) ratio = std::min(ratio, rule.limit);
      if (part.row == 2) ratio = 1.0;
      EXPECT_NEAR(ratios[part.row].item<double>(), ratio, 1e-6 * ratio) << part.row;
      EXPECT_TRUE(scaled.narrow(0, part.begin, numel).equal(moves.narrow(0, part.begin, numel).mul(ratios[part.row])))
          << part.row;
    }
  }
}

TEST(DeviceCorrections, CountFromTheStepsUpdate) {
  const at::Tensor by = bias_corrections_at(at::tensor({1e-3f, 7.0f}), -2, 0.9, 0.999);
  EXPECT_FLOAT_EQ(by[0].item<float>(), static_cast<float>(1.0 - std::pow(0.9, 5.0)));
  EXPECT_FLOAT_EQ(by[1].item<float>(), static_cast<float>(std::sqrt(1.0 - std::pow(0.999, 5.0))));
}

/// Of update 3 + 1, by the host's rate and the device's.
TEST(DeviceFactors, AreTheHosts) {
  ExactSum sum;
  sum.add(400.0);
  const at::Tensor squares = exact_sums(1, at::kCPU)[0], step = at::tensor({0.0f, 3.0f});
  std::copy(sum.words().begin(), sum.words().end(), squares.mutable_data_ptr<int64_t>());
  const FactoredRule rule{.numel = 100.0, .beta2_decay = -0.5, .min_rms = 1e-3, .decay = 0.1};
  for (const auto& [lr, rate] : {std::pair{0.25, 0.5}, std::pair{0.75, 1.0}}) {  // at most 1 / sqrt(4), times 2
    const RateThere known{.step = step, .known_lr = lr, .later = 1},
        placed{.step = step, .lr = at::scalar_tensor(lr), .later = 1};
    for (const RateThere& at : {known, placed}) {
      const at::Tensor numbers = factored_numbers_at(at, rule, squares);
      EXPECT_EQ(numbers[0].item<double>(), 0.5);
      EXPECT_EQ(numbers[1].item<double>(), 1.0 - lr * 0.1);
      EXPECT_EQ(numbers[2].item<double>(), rate);
    }
  }
}

TEST(DeviceMoves, HaveTheBitsOfNumbersOfTheHost) {
  const at::Generator generator = at::detail::createCPUGenerator(5);
  const at::Tensor weights = at::randn({331}, generator), values = at::randn({331}, generator),
                   divisors = values.abs().add(0.3);
  const float rate = 0.0123f;
  const at::Tensor there = at::scalar_tensor(rate), scaled = weights.clone(), divided = weights.clone();
  subtract_scaled(scaled, values, {}, there);
  EXPECT_TRUE(scaled.equal(weights.sub(values, rate)));
  subtract_scaled(divided, values, divisors, there);
  EXPECT_TRUE(divided.equal(weights.addcdiv(values, divisors, -rate)));
}

TEST(DeviceLosses, ArePutInTheirColumn) {
  const at::Tensor losses = at::zeros({3, 4}, at::kDouble), bits = at::full({}, 9, at::kLong);
  put_losses(losses, 1, {.sum = at::scalar_tensor(2.5), .counted = bits, .nominal = 16.0});
  put_losses(losses, 3, {.sum = at::scalar_tensor(1.0 / 3.0, at::kDouble), .count = 5});
  const at::Tensor expected = at::zeros({3, 4}, at::kDouble);
  expected[0][1] = 2.5, expected[1][1] = 9.0, expected[2][1] = 16.0;
  expected[0][3] = 1.0 / 3.0, expected[1][3] = 5.0;
  EXPECT_TRUE(losses.equal(expected)) << losses;
}

TEST(DeviceWords, AreCarriedWithoutChangingTheSum) {
  const at::Tensor words = exact_sums(1, at::kCPU);
  words[0][4] = (int64_t{5} << 40) + 3;
  const double before = sums_in(words).front().value();
  carry_words(words[0]);
  EXPECT_EQ(sums_in(words).front().value(), before);
  EXPECT_EQ(words[0][4].item<int64_t>(), 3);
}

/// x dropped on the CPU by its mask, and as a device does it.
TEST(DeviceDropout, HasTheBitsOfTheHost) {
  const RandomKey key = random_key(5, "layer");
  const std::vector<ElementRun> runs = {{1003, 130}, {0, 70}};
  std::vector<int64_t> firsts, numels;
  for (const ElementRun& run : runs) firsts.push_back(run.first), numels.push_back(run.numel);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::Tensor x = at::randn({200}, at::detail::createCPUGenerator(7)).to(type);
    for (const double p : {0.25, 1.0}) {
      const auto threshold = static_cast<uint32_t>(p == 1.0 ? 0xffffffff : p * 0x1p32);
      const at::Tensor dropped = drop_elements(x, {.scale = p == 1.0 ? 0.0 : 1 / (1 - p),
                                                   .threshold = threshold,
                                                   .all = p == 1.0,
                                                   .seed = key.seed,
                                                   .stream = key.stream,
                                                   .firsts = firsts,
                                                   .numels = numels});
      EXPECT_TRUE(dropped.equal(dropout(x, p, key, runs))) << type << " " << p;
    }
  }
}

TEST(DeviceNumbers, HaveTheBitsOfTheHost) {
  const RandomKey key = random_key(9, "weight");
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor normal = at::zeros({515}, type), uniform = at::zeros({515}, type), drawn = at::zeros({515}, type);
    fill_normal(normal, key, 6, 0.5, 3.0);
    draw_numbers(drawn, {true, key.seed, key.stream, 6, 0.5f, 3.0f});
    EXPECT_TRUE(drawn.equal(normal)) << type;
    fill_uniform(uniform, key, 6, -1.0, 2.0);
    draw_numbers(drawn, {false, key.seed, key.stream, 6, -1.0f, 3.0f});
    EXPECT_TRUE(drawn.equal(uniform)) << type;
  }
}

}  // namespace
}  // namespace weft
