// The cache of groups: eviction, one load for concurrent requests, and which errors are kept.
#include "weft/data/group_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "weft/data/bad_data.h"

namespace weft::group_cache_test {
namespace {

/// Loads groups of `bytes` each and counts how often.
class Loader {
 public:
  Loader(int64_t most_bytes, int64_t bytes) : cache(most_bytes), bytes_(bytes) {}
  int64_t get(size_t group) {
    const auto load = [&] {
      ++loads[group];
      return LoadedGroup{std::make_shared<int64_t>(static_cast<int64_t>(group)), bytes_};
    };
    return *std::static_pointer_cast<const int64_t>(cache.get(group, load));
  }

  GroupCache cache;
  std::map<size_t, int> loads;

 private:
  int64_t bytes_;
};

TEST(GroupCache, KeepsTheMostRecentlyUsed) {
  Loader loader(30, 10);
  for (const size_t group : {1, 2, 3, 1, 4}) EXPECT_EQ(loader.get(group), static_cast<int64_t>(group));
  EXPECT_TRUE(loader.cache.holds(1) && loader.cache.holds(3) && loader.cache.holds(4));
  EXPECT_FALSE(loader.cache.holds(2)) << "used longest ago";
  loader.get(2);
  EXPECT_EQ(loader.loads, (std::map<size_t, int>{{1, 1}, {2, 2}, {3, 1}, {4, 1}}));
}

TEST(GroupCache, KeepsTwoThatAreTooLarge) {
  Loader loader(5, 10);
  for (const size_t group : {1, 2, 1, 2}) loader.get(group);
  EXPECT_EQ(loader.loads[1] + loader.loads[2], 2);
  loader.get(3);
  EXPECT_FALSE(loader.cache.holds(1));
}

TEST(GroupCache, LoadsOnceForConcurrentRequests) {
  const GroupCache cache(1000);
  std::atomic<int> loads = 0, wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t group = 0; group < 50; ++group) {
        const auto value = cache.get(group, [&] {
          ++loads;
          wrong += cache.expects(group) && !cache.holds(group) ? 0 : 1;
          std::this_thread::yield();
          return LoadedGroup{std::make_shared<size_t>(group), 1};
        });
        wrong += *std::static_pointer_cast<const size_t>(value) == group ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(loads, 50);
  EXPECT_EQ(wrong, 0);
}

TEST(GroupCache, KeepsBadDataErrorsButNotFailedReads) {
  const GroupCache cache(1000);
  int calls = 0;
  const auto bad = [&]() -> LoadedGroup { throw BadDataError("bad " + std::to_string(++calls)); };
  const auto fails = [&]() -> LoadedGroup { throw InputError("no disk " + std::to_string(++calls)); };
  for (int i = 0; i < 2; ++i) EXPECT_THROW(cache.get(1, bad), BadDataError);
  EXPECT_EQ(calls, 1);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(cache.get(2, fails), InputError);
  EXPECT_EQ(calls, 3);
  EXPECT_FALSE(cache.holds(2));
  const auto good = [] { return LoadedGroup{std::make_shared<int>(7), 1}; };
  EXPECT_EQ(*std::static_pointer_cast<const int>(cache.get(2, good)), 7);
}

}  // namespace
}  // namespace weft::group_cache_test
