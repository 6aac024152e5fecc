// Every pair of ranks once, and no host in two pairs at once.
#include "weft/train/measure/pair_rounds.h"

#include <gtest/gtest.h>

#include <set>

namespace weft::pair_rounds_test {
namespace {

std::vector<std::string> named(const std::string& letters) {
  std::vector<std::string> hosts;
  for (const char letter : letters) hosts.emplace_back(1, letter);
  return hosts;
}

void expect_apart(const std::vector<std::vector<RankPair>>& rounds, const std::vector<std::string>& hosts) {
  std::set<RankPair> seen;
  for (const std::vector<RankPair>& round : rounds) {
    std::set<std::string> busy;
    for (const auto& [first, second] : round) {
      EXPECT_LT(first, second);
      EXPECT_TRUE(seen.insert({first, second}).second) << first << " and " << second << " twice";
      std::set<std::string> two = {hosts[first], hosts[second]};
      for (const std::string& host : two) EXPECT_TRUE(busy.insert(host).second) << host << " in two pairs of a round";
    }
  }
}

TEST(PairRounds, EveryPairOnce) {
  for (const std::string letters : {"ab", "aabb", "abab", "aaab", "aabbc", "abcde", "aabbccddee", "aaaa", "a"}) {
    SCOPED_TRACE(letters);
    const auto hosts = named(letters);
    const auto rounds = pair_rounds(hosts);
    expect_apart(rounds, hosts);
    size_t pairs = 0;
    for (const auto& round : rounds) pairs += round.size();
    EXPECT_EQ(pairs, letters.size() * (letters.size() - 1) / 2);
  }
  EXPECT_EQ(pair_rounds(named("aabbccdd")).size(), 1 + 3 * 4)
      << "two ranks' own pair, then four of each two hosts, two at a time";
}

TEST(PairRounds, AFewOfALargeWorld) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < 1024; ++rank) hosts.push_back("host" + std::to_string(rank / 8));
  const auto rounds = pair_rounds(hosts);
  expect_apart(rounds, hosts);
  EXPECT_EQ(rounds.size(), 28U + 127U);
  EXPECT_EQ(rounds.back().size(), 64U);
}

}  // namespace
}  // namespace weft::pair_rounds_test
