#include "weft/nn/random.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/hash.h"

namespace weft {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(Philox, KnownAnswersOfRandom123) {
  struct Row {
    Words counter;
    std::array<uint32_t, 2> key;
    Words expected;
  };
  constexpr uint32_t kOnes = 0xffffffff;
  const Row table[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Row& row : table) EXPECT_EQ(philox4x32(row.counter, row.key), row.expected);
}

/// The word of element i, one block at a time: the reference for the fast loops.
uint32_t word(RandomKey key, int64_t i) {
  const auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
  const auto high = [](uint64_t v) { return static_cast<uint32_t>(v >> 32); };
  const auto block = static_cast<uint64_t>(i / 4);
  return philox4x32({low(block), high(block), low(key.stream), high(key.stream)}, {low(key.seed), high(key.seed)})[i % 4];
}

std::vector<float> normal(RandomKey key, int64_t first, int64_t count) {
  at::Tensor out = at::empty({count}, at::kFloat);
  fill_normal(out, key, first, 0, 1);
  return {out.const_data_ptr<float>(), out.const_data_ptr<float>() + count};
}

std::vector<float> uniform(RandomKey key, int64_t first, int64_t count) {
  at::Tensor out = at::empty({count}, at::kFloat);
  fill_uniform(out, key, first, 0, 1);
  return {out.const_data_ptr<float>(), out.const_data_ptr<float>() + count};
}

TEST(Random, AgreesWithTheFormulasInDoublePrecision) {
  const RandomKey key = random_key(7, "reference");
  for (const int64_t first : {int64_t{0}, int64_t{1001}, (int64_t{1} << 35) + 2}) {
    const auto fast_uniform = uniform(key, first, 3000), fast_normal = normal(key, first, 3000);
    for (int64_t i = 0; i < 3000; ++i) {
      const int64_t element = first + i;
      EXPECT_EQ(fast_uniform[i], static_cast<float>(word(key, element) >> 8) * 0x1p-24f);
      const int64_t pair = element & ~int64_t{1};
      const double u = ((word(key, pair) >> 1) + 0.5) * 0x1p-31, turn = word(key, pair + 1) * 0x1p-32 * 2 * std::numbers::pi;
      const double expected = std::sqrt(-2 * std::log(u)) * (element % 2 == 0 ? std::cos(turn) : std::sin(turn));
      EXPECT_NEAR(fast_normal[i], expected, 2e-6) << element;
    }
  }
}

TEST(Random, AnySliceHasTheBitsItHasInTheWhole) {
  const RandomKey key = random_key(3, "blocks.0.weight");
  constexpr int64_t kSize = 2000;
  const auto whole_normal = normal(key, 0, kSize), whole_uniform = uniform(key, 0, kSize);
  const at::Tensor ones = at::ones({kSize}, at::kFloat);
  const at::Tensor whole_dropout = dropout(ones, 0.3, key, 0);
  for (const int64_t begin : {0, 1, 2, 3, 4, 5, 63, 255, 256, 257, 511, 1021, 1999}) {
    for (const int64_t count : {0, 1, 2, 3, 5, 64, 255, 256, 257, 513, 1001, 2000}) {
      if (begin + count > kSize) continue;
      const auto a = normal(key, begin, count), b = uniform(key, begin, count);
      EXPECT_TRUE(std::equal(a.begin(), a.end(), whole_normal.begin() + begin)) << begin << " + " << count;
      EXPECT_TRUE(std::equal(b.begin(), b.end(), whole_uniform.begin() + begin)) << begin << " + " << count;
      const at::Tensor part = dropout(ones.narrow(0, 0, count), 0.3, key, begin);
      EXPECT_TRUE(part.equal(whole_dropout.narrow(0, begin, count))) << begin << " + " << count;
    }
  }
}

TEST(Random, SeedsNamesAndStepsHaveStreamsOfTheirOwn) {
  std::set<std::vector<float>> streams;
  int made = 0;
  for (const uint64_t seed : {0, 1, 2}) {
    for (const char* name : {"", "a", "b", "ab", "ba"}) {
      for (const int64_t step : {0, 1, 2, 1000000}) {
        streams.insert(uniform(random_key(seed, name, step), 0, 8));
        ++made;
      }
    }
  }
  EXPECT_EQ(static_cast<int>(streams.size()), made);
  EXPECT_EQ(uniform(random_key(1, "a", 2), 0, 8), uniform(random_key(1, "a", 2), 0, 8));
}

/// The bits that every later version must also give: checkpoints and published results depend on them.
TEST(Random, BitsAreFixedForEver) {
  const auto hash = [](const std::vector<float>& x) {
    return fnv1a({reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float)});
  };
  const RandomKey key = random_key(1, "weight", 5);
  EXPECT_EQ(uniform(key, 0, 1)[0], 0x1.512d18p-1f);
  EXPECT_EQ(hash(uniform(key, 0, 10000)), 9366115932323791361ULL);
  EXPECT_EQ(hash(normal(key, 0, 10000)), 4913533142358093582ULL);
}

/// Kolmogorov-Smirnov: the largest gap between samples and distribution, times sqrt(n); above 2.2 in one run in 10^4.
double kolmogorov(std::vector<float> samples, const std::function<double(double)>& below) {
  std::sort(samples.begin(), samples.end());
  const double count = static_cast<double>(samples.size());
  double gap = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const double at = below(samples[i]);
    gap = std::max({gap, std::abs(at - static_cast<double>(i) / count), std::abs(at - static_cast<double>(i + 1) / count)});
  }
  return gap * std::sqrt(count);
}

struct Moments {
  double mean = 0, variance = 0, neighbours = 0;  ///< neighbours: correlation of each element with the next
};

Moments moments(const std::vector<float>& x) {
  const double count = static_cast<double>(x.size());
  Moments m;
  for (const float v : x) m.mean += v / count;
  for (const float v : x) m.variance += (v - m.mean) * (v - m.mean) / count;
  for (size_t i = 0; i + 1 < x.size(); ++i) m.neighbours += (x[i] - m.mean) * (x[i + 1] - m.mean) / count / m.variance;
  return m;
}

TEST(Random, HasTheDistributionsItSays) {
  constexpr int64_t kCount = 200000;
  const double noise = 5 / std::sqrt(static_cast<double>(kCount));
  for (const uint64_t seed : {1, 2, 3}) {
    const auto u = uniform(random_key(seed, "u"), 12345, kCount), n = normal(random_key(seed, "n"), 12345, kCount);
    const Moments mu = moments(u), mn = moments(n);
    EXPECT_NEAR(mu.mean, 0.5, noise * std::sqrt(1 / 12.0));
    EXPECT_NEAR(mu.variance, 1 / 12.0, noise / 12);
    EXPECT_NEAR(mu.neighbours, 0, noise);
    EXPECT_NEAR(mn.mean, 0, noise);
    EXPECT_NEAR(mn.variance, 1, noise * std::numbers::sqrt2);
    EXPECT_NEAR(mn.neighbours, 0, noise);
    EXPECT_GE(*std::min_element(u.begin(), u.end()), 0.0f);
    EXPECT_LT(*std::max_element(u.begin(), u.end()), 1.0f);
    EXPECT_LT(kolmogorov(u, [](double x) { return x; }), 2.2);
    EXPECT_LT(kolmogorov(n, [](double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }), 2.2);
  }
}

TEST(Random, ScalesAndShifts) {
  const RandomKey key = random_key(1, "scaled");
  at::Tensor a = at::empty({1000}, at::kFloat), b = at::empty({1000}, at::kFloat);
  fill_normal(a, key, 0, 3, 0.5);
  fill_uniform(b, key, 0, -2, 6);
  const auto n = normal(key, 0, 1000), u = uniform(key, 0, 1000);
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(a.const_data_ptr<float>()[i], 3 + 0.5f * n[i]);
    EXPECT_EQ(b.const_data_ptr<float>()[i], -2 + 8 * u[i]);
  }
}

TEST(Random, OtherTypesLayoutsAndParametersGetTheSameNumbers) {
  const RandomKey key = random_key(4, "types");
  at::Tensor reference = at::empty({30}, at::kFloat);
  fill_normal(reference, key, 17, 0, 1);
  for (const auto type : {at::kDouble, at::kHalf, at::kBFloat16}) {
    at::Tensor other = at::empty({30}, type);
    fill_normal(other, key, 17, 0, 1);
    EXPECT_TRUE(other.equal(reference.to(type)));
  }
  at::Tensor transposed = at::empty({6, 5}, at::kFloat).t();
  fill_normal(transposed, key, 17, 0, 1);
  EXPECT_TRUE(transposed.equal(reference.view({5, 6})));
  at::Tensor parameter = at::zeros({30}, at::kBFloat16).set_requires_grad(true);
  fill_normal(parameter, key, 17, 0, 1);
  EXPECT_TRUE(parameter.is_leaf() && parameter.detach().equal(reference.to(at::kBFloat16)));
}

TEST(Dropout, DropsTheShareItSaysAndKeepsTheMean) {
  const at::Tensor x = at::ones({400, 500}, at::kFloat);
  for (const double p : {0.1, 0.5, 0.9}) {
    const at::Tensor y = dropout(x, p, random_key(2, "share"), 99);
    int64_t dropped = 0;
    for (int64_t i = 0; i < y.numel(); ++i) {
      const float value = y.const_data_ptr<float>()[i];
      dropped += value == 0;
      ASSERT_TRUE(value == 0 || value == static_cast<float>(1 / (1 - p))) << value;
    }
    EXPECT_NEAR(static_cast<double>(dropped) / 200000, p, 5 * std::sqrt(p * (1 - p) / 200000));
  }
  EXPECT_TRUE(dropout(x, 0, random_key(2, "share"), 0).is_same(x));
  EXPECT_EQ(dropout(x, 1, random_key(2, "share"), 0).abs().sum().item<double>(), 0);
}

TEST(Dropout, GradientGoesWhereTheActivationWent) {
  const RandomKey key = random_key(2, "gradient", 3);
  at::Tensor x = at::ones({8, 33}, at::kFloat).set_requires_grad(true);
  const at::Tensor y = dropout(x, 0.25, key, 33);
  y.sum().backward();
  EXPECT_TRUE(x.grad().equal(y.detach()));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(dropout(x, 0.25, key, 33).equal(y)) << "recomputing drops the same elements";
  EXPECT_FALSE(dropout(x, 0.25, random_key(2, "gradient", 4), 33).equal(y)) << "another step drops others";
  EXPECT_TRUE(dropout(x.t().contiguous().t(), 0.25, key, 33).equal(y)) << "elements count in logical order";
}

/// A device that knows step and first sample draws what the host would have asked for: forward and backward, also in runs.
TEST(Dropout, HasTheBitsOfTheStepThatADeviceKeeps) {
  constexpr int64_t kPerSample = 24, kSamples = 3;
  const at::Tensor x = at::ones({kSamples, kPerSample}).requires_grad_(), place = at::zeros({2}, at::kLong);
  const PlacedKey key = placed_key(7, "h.0.dropout", place, kPerSample);
  for (const auto& [step, sample] : std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {1, 0}, {5, 40}, {int64_t{1} << 40, 3}}) {
    place.copy_(at::tensor({step, sample}, at::kLong));
    // The rank's samples come second in the step: from the third on.
    const at::Tensor y = placed_dropout(x, 0.4, key, {{2 * kPerSample, 10}, {2 * kPerSample + 10, kSamples * kPerSample - 10}});
    const at::Tensor expected = dropout(x, 0.4, random_key(7, "h.0.dropout", step), (sample + 2) * kPerSample);
    EXPECT_TRUE(at::equal(y, expected)) << step;
    x.mutable_grad().reset();
    y.sum().backward();
    EXPECT_TRUE(at::equal(x.grad(), expected.detach())) << "ones are scaled as gradients of ones are";
  }
  EXPECT_THROW(placed_dropout(x, 0.4, placed_key(7, "h", at::zeros({3}, at::kLong), 1), {{0, x.numel()}}), InputError);
  EXPECT_THROW(placed_dropout(x, 0.4, placed_key(7, "h", at::zeros({2}), 1), {{0, x.numel()}}), InputError);
}

TEST(Dropout, KeepsTheType) {
  const at::Tensor x = at::ones({64}, at::kBFloat16);
  const at::Tensor y = dropout(x, 0.5, random_key(1, "bf16"), 0);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(y.to(at::kFloat).equal(dropout(x.to(at::kFloat), 0.5, random_key(1, "bf16"), 0)));
}

/// Too large for any memory.
TEST(Random, DrawsNothingOnTheMetaDevice) {
  const at::Tensor x = at::empty({1 << 20, 1 << 24}, at::TensorOptions(at::kFloat).device(at::kMeta));
  const at::Tensor y = dropout(x, 0.5, random_key(1, "d"), 0);
  EXPECT_TRUE(y.is_meta());
  EXPECT_EQ(y.sizes(), x.sizes());
  fill_normal(x, random_key(1, "w"), 0, 0.0, 1.0);
  fill_uniform(x, random_key(1, "w"), 0, 0.0, 1.0);
}

TEST(Random, RefusesBadArguments) {
  at::Tensor x = at::zeros({4}, at::kFloat);
  EXPECT_THROW(fill_normal(x, {1, 1}, -1, 0, 1), InputError);
  EXPECT_THROW(fill_uniform(x, {1, 1}, -1, 0, 1), InputError);
  for (const double p : {-0.1, 1.1, std::nan("")}) EXPECT_THROW(dropout(x, p, {1, 1}, 0), InputError);
  EXPECT_THROW(dropout(x, 0.5, {1, 1}, -4), InputError);
}

}  // namespace
}  // namespace weft
