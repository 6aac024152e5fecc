// Lists of hosts as users write them.
#include "weft/launch/agent/host_places.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft::host_list_test {
namespace {

std::string text_of(const std::vector<HostPlace>& places) {
  std::string text;
  for (const HostPlace& place : places) text += place.host + " " + std::to_string(place.ranks) + "; ";
  return text;
}

std::string refusal(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

TEST(HostList, AHostHasOneRankByDefault) {
  EXPECT_EQ(text_of(parse_host_list("a:4,user@b,[fe80::1]:2")), "a 4; user@b 1; fe80::1 2; ");
  EXPECT_EQ(short_host_name("user@b"), "b");
}

TEST(HostList, AFileHasOneHostPerLine) {
  EXPECT_EQ(text_of(parse_host_file("# all\n\n a:2 # two\nb slots=4\nc\n", "hosts")), "a 2; b 4; c 1; ");
}

TEST(HostList, BadEntriesAreNamed) {
  EXPECT_EQ(refusal([] { parse_host_list("a:four"); }), "a:four: 'four' is not a number of ranks; write HOST:RANKS, as in a:4");
  EXPECT_EQ(refusal([] { parse_host_list("a:0"); }), "a:0: '0' is not a number of ranks; write HOST:RANKS, as in a:4");
  EXPECT_EQ(refusal([] { parse_host_list("a:1,a:2"); }), "--hosts: host a appears twice; list it once, with all its ranks");
  EXPECT_EQ(refusal([] { parse_host_list("-oProxyCommand=evil"); }), "'-oProxyCommand=evil' is not a host");
  EXPECT_EQ(refusal([] { parse_host_list("a:1,"); }), "'' is not a host");
  EXPECT_EQ(refusal([] { parse_host_file("a\nb max_slots=2\n", "hosts"); }), "hosts, line 2: 'max_slots=2' is not slots=RANKS");
  EXPECT_EQ(refusal([] { parse_host_file("# none\n", "hosts"); }), "hosts names no host");
}

}  // namespace
}  // namespace weft::host_list_test
