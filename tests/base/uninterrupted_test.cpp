// uninterrupted: calls interrupted by signals.
#include "weft/base/uninterrupted.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace weft {
namespace {

TEST(Uninterrupted, CallsAgainUntilNoSignalInterrupts) {
  int calls = 0;
  const auto third = [&] {
    errno = EINTR;
    return ++calls < 3 ? -1 : 42;
  };
  EXPECT_EQ(uninterrupted(third), 42);
  EXPECT_EQ(calls, 3);
  const auto fails = [&] {
    ++calls;
    errno = EIO;
    return -1;
  };
  EXPECT_EQ(uninterrupted(fails), -1);
  EXPECT_EQ(calls, 4);
}

}  // namespace
}  // namespace weft
