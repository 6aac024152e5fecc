#include "weft/data/files/shard_pattern.h"

#include <gtest/gtest.h>

#include "tests/data/expect_input_error.h"

namespace weft::shard_pattern_test {
namespace {

using Names = std::vector<std::string>;

TEST(ShardPattern, BracesStandForTheirPartsAndRanges) {
  const std::vector<std::pair<std::string, Names>> rows = {
      {"plain.tar", {"plain.tar"}},
      {"a-{08..11}.tar", {"a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"}},
      {"{9..11}", {"9", "10", "11"}},
      {"{7..7}", {"7"}},
      {"{a,b}/{0..1}.tar", {"a/0.tar", "a/1.tar", "b/0.tar", "b/1.tar"}},
      {"{a,,b}", {"a", "", "b"}},
      {"{one}", {"one"}},
  };
  for (const auto& [pattern, names] : rows) EXPECT_EQ(expand_braces(pattern), names) << pattern;
  EXPECT_EQ(expand_braces("{000000..999999}").size(), 1'000'000u);
  for (const std::string pattern : {"{0..1", "{2..1}", "{a..b}", "{..}", "{0..99999999999999999999}", "{0..999}{0..9999}"}) {
    test::expect_input_error([&] { expand_braces(pattern); }, {"'" + pattern + "'", "write train-{0000..0146}.tar"});
  }
}

TEST(ShardPattern, GlobsFitWholeNames) {
  struct Row {
    const char *name, *pattern;
    bool fits;
  };
  const Row rows[] = {{"train-01.tar", "train-*.tar", true},
                      {"train-.tar", "train-*.tar", true},
                      {"train-01.tar.gz", "train-*.tar", false},
                      {"a.tar.tar", "*.tar", true},
                      {"abcbc", "a*bc", true},
                      {"abcb", "a*bc", false},
                      {"ab", "a?", true},
                      {"a", "a?", false},
                      {"", "*", true},
                      {"", "", true},
                      {"x", "", false},
                      {"a*b", "a*b", true}};
  for (const Row& row : rows) EXPECT_EQ(fits_glob(row.name, row.pattern), row.fits) << row.name << " " << row.pattern;
  EXPECT_TRUE(is_glob("a?") && is_glob("*") && !is_glob("a{0..1}"));
}

}  // namespace
}  // namespace weft::shard_pattern_test
