// How many ranks -n asks for: "4", or "2:4", the fewest and the most.
#pragma once

#include <string>

#include "weft/cli/options/host_options.h"

namespace weft {

/// The fewest ranks that a run goes on with, and how many it is started with.
struct RankCounts {
  int least = 1;
  int most = 1;
};

/// For the parser: what is no number, or two, is a mistake of the command line; empty for what is well spelt.
std::string ranks_misspelt(const std::string& text);

/// Ranks that -n (empty: left out) and the hosts tell. Throws InputError.
RankCounts rank_counts(const std::string& ranks, const HostPlan& plan);

}  // namespace weft
