// The order by groups: each sample once per epoch, groups read as needed, windows mixed.
#include "weft/data/group_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/data/expect_input_error.h"
#include "tests/support/seeds.h"
#include "weft/data/sampler.h"

namespace weft::group_order_test {
namespace {

std::vector<SampleGroup> random_groups(uint64_t seed, int64_t count) {
  const Sampler random(200, {.seed = seed});
  std::vector<SampleGroup> groups;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t items = 1 + random.sample(i);
    groups.push_back({items, 10 * items});
  }
  return groups;
}

TEST(GroupOrder, EverySampleComesOncePerEpoch) {
  for (const uint64_t seed : test::seeds(20)) {
    SCOPED_TRACE(test::replay(seed));
    for (const int64_t unit : {1, 7}) {
      const auto groups = random_groups(seed, 1 + static_cast<int64_t>(seed % 40));
      const GroupOrder order(groups, {.seed = seed, .window_bytes = 3000});
      const int64_t shift = unit == 1 ? 0 : std::min<int64_t>(5, order.items() - 1);
      const GroupEpoch::Cut cut{.samples = std::max<int64_t>(1, (order.items() - shift) / unit), .unit = unit, .shift = shift};
      for (const int64_t epoch : {0, 1, 1'000'000}) {
        std::vector<int64_t> came, all(static_cast<size_t>(cut.samples));
        for (int64_t p = 0; p < cut.samples; ++p) came.push_back(order.epoch(epoch)->sample(p, cut));
        std::sort(came.begin(), came.end());
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(came, all) << "epoch " << epoch;
      }
    }
  }
}

TEST(GroupOrder, ItemsFollowTheOrderOfGroups) {
  const auto groups = random_groups(4, 30);
  const GroupOrder order(groups, {.seed = 4, .window_bytes = 2000});
  const auto epoch = order.epoch(3);
  std::set<size_t> seen;
  int64_t item = 0;
  for (size_t turn = 0; turn < groups.size(); ++turn) {
    const size_t group = epoch->group(turn);
    EXPECT_TRUE(seen.insert(group).second);
    for (int64_t offset = 0; offset < groups[group].items; ++offset, ++item) {
      EXPECT_EQ(epoch->place(item).turn, turn);
      EXPECT_EQ(epoch->place(item).offset, offset);
    }
  }
  EXPECT_EQ(item, order.items());
}

/// The groups between two window starts of an epoch have no more bytes than a window.
TEST(GroupOrder, SamplesStayInWindowsThatFit) {
  const auto groups = random_groups(5, 60);
  constexpr int64_t kWindow = 4000;
  const GroupOrder order(groups, {.seed = 5, .window_bytes = kWindow});
  const GroupEpoch::Cut cut{.samples = order.items()};
  const auto epoch = order.epoch(0);
  int64_t windows = 0, moved = 0;
  for (int64_t first = 0; first < cut.samples; ++windows) {
    const SampleRange range = epoch->window(first, cut);
    ASSERT_EQ(range.first, first);
    int64_t bytes = 0;
    for (size_t turn = epoch->place(first).turn; turn <= epoch->place(first + range.count - 1).turn; ++turn) {
      bytes += groups[epoch->group(turn)].bytes;
    }
    EXPECT_LE(bytes, kWindow);
    for (int64_t p = first; p < first + range.count; ++p) {
      const int64_t sample = epoch->sample(p, cut);
      EXPECT_TRUE(sample >= first && sample < first + range.count);
      moved += sample == p ? 0 : 1;
    }
    first += range.count;
  }
  EXPECT_GT(windows, 10);
  EXPECT_GT(moved, cut.samples * 9 / 10);
}

TEST(GroupOrder, DiffersByEpochAndSeedAlone) {
  const auto groups = random_groups(6, 12);
  const auto order_of = [&](uint64_t seed, int64_t epoch) {
    const GroupOrder order(groups, {.seed = seed, .window_bytes = 1000});
    std::vector<int64_t> samples;
    for (int64_t p = 0; p < order.items(); ++p) samples.push_back(order.epoch(epoch)->sample(p, {.samples = order.items()}));
    std::vector<int64_t> turns;
    for (size_t turn = 0; turn < groups.size(); ++turn) turns.push_back(static_cast<int64_t>(order.epoch(epoch)->group(turn)));
    return std::pair(turns, samples);
  };
  EXPECT_EQ(order_of(1, 2), order_of(1, 2));
  EXPECT_NE(order_of(1, 2).first, order_of(1, 3).first);
  EXPECT_NE(order_of(1, 2).second, order_of(1, 3).second);
  EXPECT_NE(order_of(1, 2).first, order_of(2, 2).first);
  EXPECT_NE(order_of(1, 2), order_of(2, 1));
}

TEST(GroupOrder, OneWindowIsAFullShuffle) {
  const GroupOrder order({{500, 1}, {500, 1}}, {.seed = 1, .window_bytes = 100});
  const auto epoch = order.epoch(0);
  int64_t of_first = 0;
  for (int64_t p = 0; p < 500; ++p) of_first += epoch->sample(p, {.samples = 1000}) < 500 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(of_first), 250.0, 60.0) << "both groups from the beginning on";
}

/// Records which groups are loaded.
class Loads final : public GroupReader {
 public:
  std::vector<SampleGroup> groups() const override { return {}; }
  bool holds(size_t group) const override { return loaded.count(group) > 0; }
  void load(size_t group) const override { loaded.insert(group); }
  mutable std::set<size_t> loaded;
};

TEST(GroupOrder, ReadsAheadEvenlyWhileTheWindowIsCached) {
  const std::vector<SampleGroup> groups(12, {100, 10});
  const GroupOrder order(groups, {.seed = 1, .window_bytes = 40});  // three windows of four
  const auto epoch = order.epoch(0), next = order.epoch(1);
  Loads loads;
  epoch->read_ahead(399, loads, *next);
  EXPECT_TRUE(loads.loaded.empty()) << "nobody reads this window in order";
  for (size_t turn = 0; turn < 4; ++turn) loads.load(epoch->group(turn));
  const auto after = [&](int64_t item) { return epoch->read_ahead(item, loads, *next), loads.loaded.size(); };
  EXPECT_EQ(after(99), 4u);
  EXPECT_EQ(after(101), 5u);
  EXPECT_EQ(after(249), 6u);
  EXPECT_EQ(after(399), 8u);
  Loads of_last;
  for (size_t turn = 8; turn < 12; ++turn) of_last.load(epoch->group(turn));
  epoch->read_ahead(1199, of_last, *next);
  for (size_t turn = 0; turn < 4; ++turn)
    EXPECT_TRUE(of_last.holds(next->group(turn))) << "the next epoch's first window follows";
}

TEST(GroupOrder, DoesNotEvictByReadingAhead) {
  const GroupOrder order({{100, 500}, {100, 60}, {100, 60}}, {.seed = 1, .window_bytes = 128});
  for (int64_t e = 0; e < 4; ++e) {
    const auto epoch = order.epoch(e), next = order.epoch(e + 1);
    for (int64_t item = 0; item < 300; item += 99) {
      Loads loads;
      const size_t turn = epoch->place(item).turn;
      const auto is_large = [&](size_t t) { return epoch->group(t) == 0; };
      for (size_t t = 0; t < 3; ++t) {  // its window: the large group, or its two neighbours
        if (t == turn || (!is_large(t) && !is_large(turn) && (t > turn ? t - turn : turn - t) == 1))
          loads.load(epoch->group(t));
      }
      const std::set<size_t> window = loads.loaded;
      epoch->read_ahead(item, loads, *next);
      int64_t bytes = 0;
      for (const size_t group : loads.loaded) bytes += group == 0 ? 500 : 60;
      EXPECT_TRUE(loads.loaded.size() <= 2 || bytes <= 256) << "more than the cache keeps";
    }
  }
}

/// Reader that fails.
class Failing final : public GroupReader {
 public:
  std::vector<SampleGroup> groups() const override { return {}; }
  bool holds(size_t group) const override { return group == held; }
  void load(size_t) const override { throw InputError("the network is down"); }
  size_t held = 0;
};

TEST(GroupOrder, LeavesErrorsToReaders) {
  const GroupOrder order({{100, 10}, {100, 10}}, {.seed = 1, .window_bytes = 10});
  Failing reader;
  reader.held = order.epoch(0)->group(0);
  EXPECT_NO_THROW(order.epoch(0)->read_ahead(99, reader, *order.epoch(1)));
}

TEST(GroupOrder, NeedsGroupsWithItems) {
  test::expect_input_error([] { GroupOrder({}, {}); }, {"there are no groups"});
  test::expect_input_error([] { GroupOrder({{1, 1}, {0, 1}}, {}); }, {"a group has no items"});
}

}  // namespace
}  // namespace weft::group_order_test
