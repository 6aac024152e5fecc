#include "weft/base/printable.h"

#include <gtest/gtest.h>

#include <string>

#include "weft/base/error.h"
#include "weft/base/file_error.h"

namespace weft {
namespace {

using std::string_literals::operator""s;

TEST(Printable, terminal_controls_become_escapes) {
  struct Case {
    std::string text, shown;
  };
  const Case cases[] = {
      {"", ""},
      {"plain text, C:\\new", "plain text, C:\\new"},
      {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"a\0b"s, "a\\x00b"},
      {"a\nb\r\tc", "a\\nb\\r\\tc"},
      {"\x1b[31mred\x07\x7f", "\\x1b[31mred\\x07\\x7f"},
      {"C1: \xc2\x9b", "C1: \\u009b"},
      {"line \xe2\x80\xa8separator", "line \\u2028separator"},
      {"right to left \xe2\x80\xae", "right to left \\u202e"},
      {"\xff", "\\xff"},
      {"cut off \xe2\x82", "cut off \\xe2\\x82"},
      {"alone \x80", "alone \\x80"},
      {"too long a form \xc0\xaf", "too long a form \\xc0\\xaf"},
      {"and \xe0\x80\xaf", "and \\xe0\\x80\\xaf"},
      {"surrogate \xed\xa0\x80", "surrogate \\xed\\xa0\\x80"},
      {"beyond \xf4\x90\x80\x80", "beyond \\xf4\\x90\\x80\\x80"},
      {"half \xe2\x28\xa1", "half \\xe2(\\xa1"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(printable(one.text), one.shown);
    EXPECT_EQ(printable(one.shown), one.shown) << "twice is once";
  }
}

TEST(Printable, long_text_keeps_its_ends_and_whole_characters) {
  EXPECT_EQ(shortened("0123456789", 10), "0123456789");
  EXPECT_EQ(shortened("0123456789a", 10), "01234[...1 bytes...]6789a");
  EXPECT_EQ(shortened("\n\n\n\n\n\n", 4), "\\n[...8 bytes...]\\n") << "the shown length counts";
  for (size_t most = 1; most < 20; ++most) {
    std::string euros;
    for (int i = 0; i < 10; ++i) euros += "\xe2\x82\xac";
    EXPECT_EQ(printable(shortened(euros, most)), shortened(euros, most)) << "no character is cut at " << most;
  }
}

TEST(Printable, EveryErrorIsPrintable) {
  EXPECT_STREQ(Error("cannot read a\n\x1b[31mb\xff").what(), "cannot read a\\n\\x1b[31mb\\xff");
  EXPECT_STREQ(FileError("grüße").what(), "grüße");
}

}  // namespace
}  // namespace weft
