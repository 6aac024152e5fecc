// Waiting for c10d's work, a while at a time.
#include "weft/comm/c10d/operations.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace weft {
namespace {

using std::chrono::milliseconds;

/// Work that ends just after a wait for it has given up, before the waiter can look.
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

TEST(EndsWithin, TellsWorkThatEndsLateFromWorkThatFails) {
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
