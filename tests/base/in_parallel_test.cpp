// Calls on several threads: each happens once, and the first error is the one that is thrown.
#include "weft/base/in_parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft::in_parallel_test {
namespace {

TEST(InParallel, CallsEachOnce) {
  for (const size_t threads : {0, 1, 2, 8}) {
    for (const size_t count : {0, 1, 3, 100}) {
      std::vector<std::atomic<int>> calls(count);
      in_parallel(count, threads, [&](size_t i) { ++calls[i]; });
      for (const auto& called : calls) EXPECT_EQ(called, 1);
    }
  }
}

TEST(InParallel, CallsRunAtTheSameTime) {
  std::barrier<> together(4);
  in_parallel(4, 4, [&](size_t) { together.arrive_and_wait(); });  // would never end one after another
}

TEST(InParallel, ThrowsTheFirstErrorAfterAllHaveEnded) {
  std::atomic<int> ended = 0;
  try {
    in_parallel(20, 4, [&](size_t i) {
      ++ended;
      if (i % 7 == 5) throw std::runtime_error("number " + std::to_string(i));
    });
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "number 5");
  }
  EXPECT_EQ(ended, 20);
}

}  // namespace
}  // namespace weft::in_parallel_test
