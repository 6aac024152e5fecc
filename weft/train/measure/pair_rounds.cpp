#include "weft/train/measure/pair_rounds.h"

#include <algorithm>

#include "weft/comm/two_level/host_map.h"

namespace weft {
namespace {

constexpr size_t kMostWhole = 64;  // largest world whose pairs are all measured

/// Adds the k-th pair of each entry to the k-th round.
void add_rounds(std::vector<std::vector<RankPair>>& rounds, const std::vector<std::vector<RankPair>>& entries) {
  size_t longest = 0;
  for (const std::vector<RankPair>& entry : entries) longest = std::max(longest, entry.size());
  for (size_t k = 0; k < longest; ++k) {
    std::vector<RankPair>& round = rounds.emplace_back();
    for (const std::vector<RankPair>& entry : entries) {
      if (k < entry.size()) round.push_back(entry[k]);
    }
  }
}

std::vector<RankPair> pairs_inside(const std::vector<int>& ranks) {
  std::vector<RankPair> pairs;
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (size_t j = i + 1; j < ranks.size(); ++j) pairs.emplace_back(ranks[i], ranks[j]);
  }
  return pairs;
}

std::vector<RankPair> pairs_between(const std::vector<int>& first, const std::vector<int>& second, bool all) {
  std::vector<RankPair> pairs;
  for (const int a : first) {
    for (const int b : second) {
      pairs.emplace_back(std::min(a, b), std::max(a, b));
      if (!all) return pairs;
    }
  }
  return pairs;
}

}  // namespace

// Hosts meet like players of a round-robin tournament, by the circle method: one stays, the others rotate around it.
std::vector<std::vector<RankPair>> pair_rounds(const std::vector<std::string>& hosts) {
  const HostMap map(hosts);
  const int num_hosts = map.num_hosts();
  std::vector<std::vector<RankPair>> rounds, entries;
  entries.reserve(num_hosts);
  for (int host = 0; host < num_hosts; ++host) entries.push_back(pairs_inside(map.members(host)));
  add_rounds(rounds, entries);
  const int seats = num_hosts + num_hosts % 2;  // with an odd number, one rests
  for (int turn = 0; turn + 1 < seats; ++turn) {
    const auto seated = [&](int seat) { return seat == 0 ? 0 : 1 + (seat - 1 + turn) % (seats - 1); };
    entries.clear();
    for (int seat = 0; seat < seats / 2; ++seat) {
      const int a = seated(seat), b = seated(seats - 1 - seat);
      if (a < num_hosts && b < num_hosts)
        entries.push_back(pairs_between(map.members(a), map.members(b), hosts.size() <= kMostWhole));
    }
    add_rounds(rounds, entries);
  }
  return rounds;
}

}  // namespace weft
