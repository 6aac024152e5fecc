// The numbers of ranks that -n gives: "4", or "2:4" for fewest and most.
#pragma once

#include <string>

#include "weft/cli/options/host_options.h"

namespace weft {

/// The fewest ranks with which a run continues, and the number with which it starts.
struct RankCounts {
  int least = 1;
  int most = 1;
};

/// Check for the parser: an error for anything except one number or two; empty for a well-formed one.
std::string ranks_misspelt(const std::string& text);

/// Returns the number of ranks from -n (empty: not given) and the hosts. Throws InputError.
RankCounts rank_counts(const std::string& ranks, const HostPlan& plan);

}  // namespace weft
