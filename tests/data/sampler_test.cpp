#include "weft/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "tests/data/expect_input_error.h"

namespace weft {
namespace {

std::vector<int64_t> epoch_of(const Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < sampler.size(); ++i) out.push_back(sampler.sample(epoch * sampler.size() + i));
  return out;
}

TEST(Sampler, EveryEpochHoldsEverySampleOnce) {
  for (const int64_t size : {1, 2, 3, 4, 5, 7, 15, 16, 17, 63, 64, 65, 100, 1000, 4095, 4096, 4097, 60000}) {
    for (const uint64_t seed : {0, 1, 12345}) {
      const Sampler sampler(size, {.seed = seed});
      for (const int64_t epoch : {0, 1, 1000000}) {
        auto order = epoch_of(sampler, epoch);
        std::sort(order.begin(), order.end());
        for (int64_t i = 0; i < size; ++i) ASSERT_EQ(order[i], i) << "size " << size << " seed " << seed << " epoch " << epoch;
      }
    }
  }
}

TEST(Sampler, HugeSizesStayInRange) {
  const int64_t size = (int64_t{1} << 40) + 1;
  const Sampler sampler(size, {.seed = 9});
  for (const int64_t position : {int64_t{0}, size - 1, size, 3 * size + 7}) {
    EXPECT_GE(sampler.sample(position), 0);
    EXPECT_LT(sampler.sample(position), size);
  }
  EXPECT_EQ(sampler.epoch(size - 1), 0);
  EXPECT_EQ(sampler.epoch(size), 1);
}

TEST(Sampler, EpochsAndSeedsDiffer) {
  const Sampler sampler(100, {.seed = 1});
  EXPECT_NE(epoch_of(sampler, 0), epoch_of(sampler, 1));
  EXPECT_NE(epoch_of(sampler, 1), epoch_of(sampler, 2));
  EXPECT_NE(epoch_of(sampler, 0), epoch_of(Sampler(100, {.seed = 2}), 0));
  EXPECT_EQ(epoch_of(sampler, 5), epoch_of(Sampler(100, {.seed = 1}), 5));
  // Seed s, epoch e + 1 must not be seed s + 1, epoch e.
  EXPECT_NE(epoch_of(sampler, 1), epoch_of(Sampler(100, {.seed = 2}), 0));
}

TEST(Sampler, WithoutShuffleKeepsTheOrder) {
  const Sampler sampler(5, {.shuffle = false});
  EXPECT_EQ(epoch_of(sampler, 3), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

/// Chi-square of counts that should be equal, against mean + 5 standard deviations of its distribution.
void expect_uniform(const std::vector<int64_t>& counts, const std::string& what) {
  const double cells = static_cast<double>(counts.size());
  const double expected = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0})) / cells;
  double chi = 0;
  for (const int64_t count : counts)
    chi += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected) / expected;
  const double freedom = cells - 1;
  EXPECT_LT(chi, freedom + 5 * std::sqrt(2 * freedom)) << what;
}

TEST(Sampler, PermutationsOfThreeAreEquallyLikely) {
  const Sampler sampler(3, {.seed = 4});
  std::map<std::vector<int64_t>, int64_t> seen;
  for (int64_t epoch = 0; epoch < 6000; ++epoch) ++seen[epoch_of(sampler, epoch)];
  ASSERT_EQ(seen.size(), 6u);
  std::vector<int64_t> counts;
  for (const auto& [order, count] : seen) counts.push_back(count);
  expect_uniform(counts, "permutations of three");
}

TEST(Sampler, EverySampleIsEquallyLikelyAtEveryPlace) {
  for (const int64_t size : {10, 37}) {
    const Sampler sampler(size, {.seed = 8});
    std::vector<int64_t> place_and_sample(size * size), neighbours(size * size);
    for (int64_t epoch = 0; epoch < 5000; ++epoch) {
      const auto order = epoch_of(sampler, epoch);
      for (int64_t i = 0; i < size; ++i) ++place_and_sample[i * size + order[i]];
      for (int64_t i = 0; i + 1 < size; ++i) ++neighbours[order[i] * size + order[i + 1]];
    }
    expect_uniform(place_and_sample, "place and sample");
    std::vector<int64_t> pairs;
    for (int64_t i = 0; i < size * size; ++i) {
      if (i / size != i % size) pairs.push_back(neighbours[i]);
    }
    expect_uniform(pairs, "neighbours");
  }
}

TEST(Sampler, RefusesAnEmptyDataset) {
  for (const int64_t size : {0, -3}) {
    test::expect_input_error([&] { Sampler(size, {}); }, {std::to_string(size), "samples"});
  }
}

}  // namespace
}  // namespace weft
