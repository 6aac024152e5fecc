// Work split among LibTorch's threads.
#include "weft/comm/threads/parallel_for.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/error.h"

namespace weft::parallel_for_test {
namespace {

struct Seen {
  std::set<std::thread::id> threads;
  std::vector<std::pair<int64_t, int64_t>> ranges;  ///< in order
};

Seen seen_of(int64_t count, int64_t grain) {
  std::mutex mutex;
  Seen seen;
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    seen.threads.insert(std::this_thread::get_id());
    seen.ranges.emplace_back(begin, end);
  });
  std::sort(seen.ranges.begin(), seen.ranges.end());
  return seen;
}

class ParallelFor : public ::testing::Test {
 protected:
  ParallelFor() { at::set_num_threads(3); }
  ~ParallelFor() override { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

TEST_F(ParallelFor, GivesOneRangePerThread) {
  const Seen seen = seen_of(10, 2);
  EXPECT_EQ(seen.threads.size(), 3u);
  EXPECT_EQ(seen.ranges, (Ranges{{0, 2}, {2, 6}, {6, 10}}));
  EXPECT_EQ(seen_of(9, 4).ranges, (Ranges{{0, 4}, {4, 8}, {8, 9}}));
  EXPECT_EQ(seen_of(5, 4).threads.size(), 2u);
  EXPECT_EQ(seen_of(4, 4).ranges, (Ranges{{0, 4}}));
  EXPECT_TRUE(seen_of(0, 4).ranges.empty());
}

/// LibTorch's own operators use the same number.
TEST_F(ParallelFor, RunsOnTheCallerIfThatComputesAlone) {
  std::thread([] {
    use_single_thread();
    EXPECT_EQ(threads_for(10, 1), 1);
    EXPECT_EQ(at::get_num_threads(), 1);
    EXPECT_EQ(seen_of(10, 1).ranges, (Ranges{{0, 10}}));
  }).join();
  EXPECT_EQ(threads_for(10, 1), 3) << "other threads are unaffected";
  std::thread([] { EXPECT_EQ(threads_for(10, 1), 3); }).join();
}

TEST_F(ParallelFor, IsNotNested) {
  std::mutex mutex;
  int64_t most = 0;
  parallel_for(3, 1, [&](int64_t, int64_t) {
    const int64_t threads = threads_for(10, 1);
    const std::lock_guard lock(mutex);
    most = std::max(most, threads);
  });
  EXPECT_EQ(most, 1);
}

TEST_F(ParallelFor, RethrowsErrors) {
  EXPECT_THROW(parallel_for(3, 1,
                            [](int64_t begin, int64_t) {
                              if (begin == 2) throw InputError("not this one");
                            }),
               InputError);
}

}  // namespace
}  // namespace weft::parallel_for_test
