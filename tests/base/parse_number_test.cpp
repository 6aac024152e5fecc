// parse_number: numbers from text.
#include "weft/base/parse_number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace weft {
namespace {

TEST(ParseNumber, AcceptsOnlyWholeTexts) {
  EXPECT_EQ(parse_number<int>("-17"), -17);
  EXPECT_EQ(parse_number<uint8_t>("255"), 255);
  EXPECT_EQ(parse_number<double>("2.5e-1"), 0.25);
  for (const char* wrong : {"", " 1", "1 ", "+1", "1x", "x", "2147483648", "0x10", "1.0"}) {
    EXPECT_FALSE(parse_number<int>(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace weft
