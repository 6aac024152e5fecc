// search_layouts: the fastest layouts of a recipe on a number of ranks of given hardware.
//
// Enumerates a stated space of layouts (search_space.h), refuses those that the composition rules refuse, bounds the memory and
// time of the rest from below (state_bound.h), and simulates in the order of these bounds until no layout that is left can be
// among the best. So the result is that of simulating every layout of the space. Offloaded layouts are in it only where the
// same layout without offload does not fit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/plan/cost/cost_table.h"
#include "weft/plan/search/layout_forecast.h"
#include "weft/plan/search/refusals.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// What to search.
struct SearchOptions {
  int most = 5;                          ///< layouts to return
  double memory_bytes = 0.0;             ///< limit per rank; 0: Hardware::memory_bytes
  std::vector<std::string> kept = {};    ///< keys whose values in the recipe stay: "layout.tp", "batch.micro"
  std::vector<std::string> varied = {};  ///< further keys to search, whose values change results: "layout.precision"
  int threads = 0;                       ///< that measure and simulate at once; 0: one per core, up to four
};

/// Result of a search.
struct SearchResult {
  std::vector<LayoutForecast> best = {};  ///< fastest first; empty: none fits
  std::vector<LeftOut> left_out = {};     ///< over memory, the closest to fit first, then illegal
  int64_t layouts = 0;                    ///< in the space
  int64_t illegal = 0;                    ///< refused by composition rules or divisions
  int64_t over_memory = 0;                ///< by bound or simulation
  int64_t bounded = 0;                    ///< not simulated, as their bound is above the slowest of `best`
  int64_t simulated = 0;
  std::vector<std::string> space = {};  ///< what was searched, a line per key: "layout.tp: 1, 2, 4, 8"
  double seconds = 0.0;                 ///< that the search took
};

/// Searches. Throws InputError for an invalid recipe, unknown keys in the options, or hardware without links that every layout
/// needs.
SearchResult search_layouts(const Recipe& recipe, int world_size, const Hardware& hardware, const SearchOptions& options = {},
                            std::shared_ptr<CostTable> costs = nullptr);

}  // namespace weft
