// Placement of ranks on hosts, which ranks communicate, and the sums that hosts compute locally.
#include "weft/comm/two_level/host_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <functional>

namespace weft {
namespace {

HostMap map_of(const std::string& letters) {
  std::vector<std::string> hosts;
  for (const char letter : letters) hosts.emplace_back(1, letter);
  return HostMap(hosts);
}

const char* const kShapes[] = {"ab",   "abc",  "aab",    "abb",     "aabb",     "aaab",
                               "abab", "abba", "aabbcc", "aabccca", "abcabcab", "aaaaabbbc"};

TEST(HostMap, EveryPairOfRankAndOtherHostHasOneCarrier) {
  for (const std::string shape : kShapes) {
    const HostMap map = map_of(shape);
    std::vector<int> carriers(map.size());
    for (int position = 0; position < map.size(); ++position) {
      EXPECT_EQ(map.members(map.host_of(position))[map.place_of(position)], position) << shape;
      for (const int other : map.carried(position)) {
        EXPECT_NE(map.host_of(other), map.host_of(position)) << shape;
        EXPECT_EQ(map.carrier(map.host_of(position), other), position) << shape;
        ++carriers[other];
      }
    }
    for (const int count : carriers) EXPECT_EQ(count, map.num_hosts() - 1) << shape;
  }
}

/// A bracketed sum of ranks' names, in the order of the fixed tree.
std::string tree(const std::vector<std::string>& leaves, size_t low, size_t high) {
  if (high - low == 1) return leaves[low];
  size_t half = 1;
  while (half * 2 < high - low) half *= 2;
  return fmt::format("({}+{})", tree(leaves, low, low + half), tree(leaves, low + half, high));
}

std::string text_of(const HostMap& map, const HostSum& sum) {
  std::vector<std::string> terms, nodes;
  for (const HostSum::Term& term : sum.terms()) {
    std::vector<std::string> leaves;
    for (const int place : term.places) leaves.push_back(std::to_string(map.members(term.host)[place]));
    terms.push_back(tree(leaves, 0, leaves.size()));
  }
  for (const HostSum::Node& node : sum.nodes()) {
    nodes.push_back(node.term >= 0 ? terms[node.term] : fmt::format("({}+{})", nodes[node.left], nodes[node.right]));
  }
  if (sum.is_plain()) {
    EXPECT_EQ(nodes.back(), tree(terms, 0, terms.size()));
  }
  return nodes.back();
}

TEST(HostSum, InTreeOrderIsTheTreeOverRanks) {
  for (const std::string shape : kShapes) {
    const HostMap map = map_of(shape);
    std::vector<std::string> ranks;
    for (int rank = 0; rank < map.size(); ++rank) ranks.push_back(std::to_string(rank));
    EXPECT_EQ(text_of(map, HostSum(map, true)), tree(ranks, 0, ranks.size())) << shape;
  }
}

TEST(HostSum, CountsTheTermsThatCross) {
  struct Row {
    const char* shape;
    int terms_of_first;  ///< in tree order
    bool plain;
    const char* own_order;
  };
  for (const Row row : {Row{"ab", 1, true, "(0+1)"},
                        {"aabb", 1, true, "((0+1)+(2+3))"},
                        {"aaab", 2, false, "(((0+1)+2)+3)"},
                        {"abab", 2, true, "((0+2)+(1+3))"},
                        {"aaaabb", 1, true, "(((0+1)+(2+3))+(4+5))"},
                        {"aabbcc", 1, true, "(((0+1)+(2+3))+(4+5))"}}) {
    const HostMap map = map_of(row.shape);
    const HostSum ordered(map, true), own(map, false);
    EXPECT_EQ(ordered.terms_of(0), row.terms_of_first) << row.shape;
    EXPECT_EQ(ordered.is_plain(), row.plain) << row.shape;
    EXPECT_EQ(own.terms_of(0), 1) << row.shape;
    EXPECT_TRUE(own.is_plain()) << row.shape;
    EXPECT_EQ(text_of(map, own), row.own_order) << row.shape;
  }
}

}  // namespace
}  // namespace weft
