// EnumNames: names are printed and parsed.
#include "weft/base/enum_names.h"

#include <gtest/gtest.h>

#include <string>

#include "weft/base/error.h"

namespace weft {
namespace {

enum class Colour { red, green };
constexpr EnumNames<Colour, 2> kColours("red", "green");

TEST(EnumNames, ArePrintedAndParsed) {
  EXPECT_EQ(kColours.of(Colour::green), "green");
  EXPECT_EQ(kColours.value_of("red", "colour"), Colour::red);
  EXPECT_EQ(kColours.all(), (std::vector<std::string>{"red", "green"}));
  EXPECT_EQ(kColours.of(static_cast<Colour>(7)), "unknown");
  for (const std::string wrong : {"", "Red", "blue", "red "}) {
    try {
      kColours.value_of(wrong, "colour");
      ADD_FAILURE() << wrong;
    } catch (const InputError& error) {
      EXPECT_EQ(error.what(), "colour = \"" + wrong + "\" is not one of red, green");
    }
  }
}

}  // namespace
}  // namespace weft
