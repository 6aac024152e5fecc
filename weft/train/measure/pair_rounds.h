// Which ranks of a world are measured against each other, and when.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft {

/// Two ranks, the lower one first.
using RankPair = std::pair<int, int>;

/// Rounds of pairs that do not disturb one another: a host is in one pair of a round at most, of two of its own ranks, or of
/// one and another host's. All pairs of a world of up to 64 ranks; of a larger one those inside hosts, and one of each two
/// hosts (their first ranks): so of H hosts of c ranks c (c-1)/2 rounds and H - 1. `hosts`: each rank's.
std::vector<std::vector<RankPair>> pair_rounds(const std::vector<std::string>& hosts);

}  // namespace weft
