#include "weft/train/run/pair_rounds.h"

#include <algorithm>
#include <map>

namespace weft {
namespace {

constexpr size_t kMostWhole = 64;  // ranks of a world all of whose pairs are measured

std::vector<std::vector<int>> ranks_by_host(const std::vector<std::string>& hosts) {
  std::map<std::string, size_t> numbers;
  std::vector<std::vector<int>> ranks;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const size_t number = numbers.try_emplace(hosts[rank], ranks.size()).first->second;
    if (number == ranks.size()) ranks.emplace_back();
    ranks[number].push_back(static_cast<int>(rank));
  }
  return ranks;
}

/// The k-th pair of each entry in the k-th round.
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

// Two hosts meet as two players of a round-robin tournament do, by the circle method: one stays, the others turn around it.
std::vector<std::vector<RankPair>> pair_rounds(const std::vector<std::string>& hosts) {
  const std::vector<std::vector<int>> ranks = ranks_by_host(hosts);
  std::vector<std::vector<RankPair>> rounds, entries;
  entries.reserve(ranks.size());
  for (const std::vector<int>& of_host : ranks) entries.push_back(pairs_inside(of_host));
  add_rounds(rounds, entries);
  const int seats = static_cast<int>(ranks.size() + ranks.size() % 2);  // an odd one out rests
  for (int turn = 0; turn + 1 < seats; ++turn) {
    const auto seated = [&](int seat) { return seat == 0 ? 0 : 1 + (seat - 1 + turn) % (seats - 1); };
    entries.clear();
    for (int seat = 0; seat < seats / 2; ++seat) {
      const auto a = static_cast<size_t>(seated(seat)), b = static_cast<size_t>(seated(seats - 1 - seat));
      if (a < ranks.size() && b < ranks.size())
        entries.push_back(pairs_between(ranks[a], ranks[b], hosts.size() <= kMostWhole));
    }
    add_rounds(rounds, entries);
  }
  return rounds;
}

}  // namespace weft
