// Which links between hosts are called slow, by what their ring carries.
#include "weft/train/watch/slow_links.h"

#include <gtest/gtest.h>

namespace weft::slow_links_test {
namespace {

std::string reported(const std::vector<std::string>& hosts, const std::vector<double>& rates, double usual) {
  std::string text;
  for (const SlowLink& link : find_slow_links(hosts, rates, usual)) text += link.what + "; ";
  return text;
}

TEST(SlowLinks, AHostIsNamedWhereBothItsLinksAre) {
  struct Case {
    std::vector<std::string> hosts;
    std::vector<double> rates;  ///< a to b, b to c, c to a
    const char* says;
  };
  const Case cases[] = {
      {{"a", "b"}, {100, 90}, ""},
      {{"a", "b"}, {100, 29}, "the link between hosts a and b is slow; "},
      {{"a", "b", "c"}, {100, 31, 100}, ""},
      {{"a", "b", "c"}, {1, 1, 100}, "host b has slow links; "},
      {{"a", "b", "c"}, {100, 100, 1}, "the link from host c to host a is slow; "},
      {{"a", "b", "c"}, {1, 100, 1}, "host a has slow links; "},
  };
  for (const Case& c : cases) EXPECT_EQ(reported(c.hosts, c.rates, 100.0), c.says);
}

TEST(SlowLinks, TheUsualRateIsThatOfGoodDays) {
  UsualRate usual;
  EXPECT_EQ(usual.add({100, 100}), 100.0);
  EXPECT_EQ(usual.add({100, 1}), 100.0);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(usual.add({1, 1}), 100.0) << "slow ones do not become what is usual";
  for (int i = 0; i < 100; ++i) usual.add({80, 80});
  EXPECT_EQ(usual.add({80, 80}), 80.0);
}

}  // namespace
}  // namespace weft::slow_links_test
