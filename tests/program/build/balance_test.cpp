// Cuts into stages: as good as the best of all cuts, and found without trying them all.
#include "weft/program/build/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "tests/support/cpu_limit.h"
#include "tests/support/seeds.h"
#include "weft/base/error.h"

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// By definition: every position of every cut, with the sums that Cutter computes, so that ties are resolved alike.
std::optional<std::vector<int>> slow(const BalanceOptions& options) {
  const int blocks = static_cast<int>(options.seconds.size());
  std::vector<double> sums = {0.0};
  for (const double seconds : options.seconds) sums.push_back(sums.back() + seconds);
  std::vector<std::vector<int>> begins;
  const auto cut = [&](const std::function<double(double, double)>& join, double longest) {
    std::vector<double> least(blocks + 1, kNever);
    least[0] = 0.0;
    begins.assign(options.stages, std::vector<int>(blocks + 1, -1));
    for (int stage = 0; stage < options.stages; ++stage) {
      std::vector<double> next(blocks + 1, kNever);
      for (int end = 1; end <= blocks; ++end) {
        int64_t bytes = options.fixed_bytes.empty() ? 0 : options.fixed_bytes[stage];
        for (int begin = end - 1; begin >= 0; --begin) {
          if (options.max_bytes > 0) bytes += options.bytes(begin, stage);
          const double length = sums[end] - sums[begin];
          if ((options.max_bytes > 0 && bytes > options.max_bytes) || length > longest) break;
          if (join(least[begin], length) >= next[end]) continue;
          next[end] = join(least[begin], length);
          begins[stage][end] = begin;
        }
      }
      least = std::move(next);
    }
    return least[blocks];
  };
  const double longest = cut([](double a, double b) { return std::max(a, b); }, kNever);
  if (longest == kNever) return {};
  cut([](double a, double b) { return a + b * b; }, longest);
  std::vector<int> first(options.stages);
  for (int stage = options.stages - 1, end = blocks; stage >= 0; --stage) end = first[stage] = begins[stage][end];
  return first;
}

BalanceOptions random_blocks(test::Random& random, int round) {
  const int blocks = 1 + random.below(24), kinds = 1 + random.below(5);
  BalanceOptions options{.stages = 1 + random.below(std::min(blocks + 1, 9))};
  for (int block = 0; block < blocks; ++block) {
    options.seconds.push_back(random.one_in(3) ? 0.1 * random.below(50) : static_cast<double>(random.below(kinds)));
  }
  if (random.one_in(4)) options.seconds[random.of(std::vector<int>{0, blocks / 2, blocks - 1})] = 1000.0;  // a slow block
  if (random.one_in(2)) return options;
  options.bytes = [round](int block, int stage) { return int64_t{1} + (block * 7 + stage * 3 + round) % 5; };
  options.max_bytes = 2 + random.below(3 * blocks);
  for (int stage = 0; stage < options.stages && round % 4 == 0; ++stage) options.fixed_bytes.push_back(random.below(6) - 2);
  return options;
}

TEST(Balance, MatchesTryingEveryCut) {
  int refused = 0;
  for (int round = 0; round < 600; ++round) {
    test::Random random(static_cast<unsigned>(round));
    const BalanceOptions options = random_blocks(random, round);
    const std::optional<std::vector<int>> expected = slow(options);
    if (expected) {
      EXPECT_EQ(balance_stages(options).value, *expected) << "round " << round;
    } else {
      EXPECT_FALSE(balance_stages(options)) << "round " << round;
      ++refused;
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_LT(refused, 300);
}

// The bytes of a block on a stage are requested a few times each, not once per stage that it could be in.
TEST(Balance, AsksForEachBlockOfAStageAFewTimes) {
  const int blocks = 600, stages = 60;
  BalanceOptions options{.stages = stages, .seconds = std::vector<double>(blocks, 1.0), .max_bytes = 1'000'000};
  options.seconds.back() = 500.0;
  int64_t asked = 0;
  options.bytes = [&asked](int, int) { return ++asked, int64_t{1}; };
  const std::vector<int> first = balance_stages(options).take();
  EXPECT_EQ(first.back(), blocks - 1);
  EXPECT_LE(asked, int64_t{2} * blocks * stages);
}

// If one block is slower than many others the best cut is far from even: no place is retried for every end of a stage.
TEST(Balance, OneSlowBlockAmongManyTakesNoLonger) {
  const int blocks = 10'000, stages = 1000;
  for (const int slow : {0, blocks / 2, blocks - 1}) {
    EXPECT_TRUE(test::runs_within(20, [&] {
      BalanceOptions options{.stages = stages, .seconds = std::vector<double>(blocks, 1.0)};
      options.seconds[slow] = 5000.0;
      balance_stages(options).take();
    })) << slow;
  }
}

}  // namespace
}  // namespace weft
