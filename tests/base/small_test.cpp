// The small helpers of base: words of enums, numbers in texts, sizes of shared buffers, calls that signals interrupt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "weft/base/buffer_sizes.h"
#include "weft/base/enum_names.h"
#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/uninterrupted.h"

namespace weft {
namespace {

enum class Colour { red, green };
constexpr EnumNames<Colour, 2> kColours("red", "green");

TEST(EnumNames, AreWrittenAndReadBack) {
  EXPECT_EQ(kColours.of(Colour::green), "green");
  EXPECT_EQ(kColours.value_of("red"), Colour::red);
  EXPECT_EQ(kColours.all(), (std::vector<std::string>{"red", "green"}));
  EXPECT_EQ(kColours.of(static_cast<Colour>(7)), "unknown");
  for (const std::string wrong : {"", "Red", "blue", "red "}) {
    try {
      kColours.value_of(wrong);
      ADD_FAILURE() << wrong;
    } catch (const InputError& error) {
      EXPECT_EQ(error.what(), "'" + wrong + "' is none of red, green");
    }
  }
}

TEST(ParseNumber, TakesANumberAndNothingBesides) {
  EXPECT_EQ(parse_number<int>("-17"), -17);
  EXPECT_EQ(parse_number<uint8_t>("255"), 255);
  EXPECT_EQ(parse_number<double>("2.5e-1"), 0.25);
  for (const char* wrong : {"", " 1", "1 ", "+1", "1x", "x", "2147483648", "0x10", "1.0"}) {
    EXPECT_FALSE(parse_number<int>(wrong)) << wrong;
  }
}

TEST(BufferSizes, AreThoseOfTheLargestBlock) {
  const std::vector<int64_t> block = {3, 10, 5, 7};
  const auto size_of = [&](size_t b) { return block[b]; };
  EXPECT_EQ(buffer_sizes({0, 1, 0, 1}, size_of), (std::vector<int64_t>{5, 10}));
  EXPECT_EQ(buffer_sizes({-1, 2, -1, 0}, size_of), (std::vector<int64_t>{7, 0, 10}));
  EXPECT_TRUE(buffer_sizes({}, size_of).empty());
}

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
