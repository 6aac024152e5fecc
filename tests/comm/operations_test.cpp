// Waiting for c10d's work in slices of time.
#include "weft/comm/c10d/operations.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace weft {
namespace {

using std::chrono::milliseconds;

/// Work that ends just after a wait for it has given up, before the waiter can check it.
class LateWork : public c10d::Work {
 public:
  explicit LateWork(std::exception_ptr error) : error_(std::move(error)) {}
  bool wait(milliseconds timeout) override {
    if (timeout != kNoTimeout) {
      finish(error_);
      throw std::runtime_error("Operation timed out!");
    }
    return c10d::Work::wait(timeout);
  }

 private:
  std::exception_ptr error_;
};

/// From any place in the program: each call has its own type.
TEST(StartCall, StartsOneCallAtATime) {
  std::atomic<int> under_way = 0, most = 0;
  const auto look = [&] {
    const int now = ++under_way;
    if (now > most) most = now;
    std::this_thread::sleep_for(milliseconds(2));
    --under_way;
  };
  std::thread other([&] {
    for (int i = 0; i < 10; ++i) start_call([&] { look(); });
  });
  for (int i = 0; i < 10; ++i) start_call([&] { look(); });
  other.join();
  EXPECT_EQ(most, 1);
}

TEST(EndsWithin, DistinguishesLateWorkFromFailedWork) {
  LateWork good(nullptr);
  EXPECT_TRUE(ends_within(good, milliseconds(1)));
  LateWork bad(std::make_exception_ptr(std::runtime_error("no peer")));
  EXPECT_THROW(
      {
        try {
          ends_within(bad, milliseconds(1));
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "no peer");
          throw;
        }
      },
      std::runtime_error);
  c10d::Work never;
  EXPECT_FALSE(ends_within(never, milliseconds(1)));
}

}  // namespace
}  // namespace weft
