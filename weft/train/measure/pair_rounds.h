// The pairs of ranks to measure, and their order.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft {

/// Two ranks, the lower one first.
using RankPair = std::pair<int, int>;

/// Rounds of pairs that do not disturb each other: in each round a host is in at most one pair: two of its own ranks, or one of
/// them and a rank of another host. All pairs for up to 64 ranks; for more, all pairs inside hosts, and one per pair of hosts
/// (their first ranks): c (c-1)/2 + H - 1 rounds for H hosts of c ranks. `hosts`: each rank's host.
std::vector<std::vector<RankPair>> pair_rounds(const std::vector<std::string>& hosts);

}  // namespace weft
