// search_layouts: the fastest layouts of a recipe on a number of ranks of given hardware.
//
// Enumerates a stated space of layouts (search_space.h), refuses those that the composition rules refuse, bounds the memory and
// time of the rest from below (state_bound.h), and simulates in the order of these bounds until no layout that is left can be
// among the best. So the result is that of simulating every layout of the space. Offloaded layouts are in it only where the
// same layout without offload does not fit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/plan/cost/cost_table.h"
#include "weft/plan/search/layout_forecast.h"
#include "weft/plan/search/refusals.h"
#include "weft/plan/search/simpler_layouts.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/recipe.h"

namespace weft {

struct SearchResult;

/// What to search.
struct SearchOptions {
  int most = 5;                          ///< layouts to return
  double memory_bytes = 0.0;             ///< limit per rank; 0: Hardware::memory_bytes
  std::vector<std::string> kept = {};    ///< keys whose values in the recipe stay: "layout.tp", "batch.micro"
  std::vector<std::string> varied = {};  ///< further keys to search, whose values change results: "layout.precision"
  int64_t most_simulated = 0;            ///< the search may end after so many; 0: it is exact
  bool finds_any = false;                ///< the search ends with the first layout that fits
  bool finds_simpler = false;            ///< also SearchResult::simpler
  std::function<void(const SearchResult&)> progress = {};  ///< called now and then with the counts so far
  int threads = 0;                                         ///< that measure and simulate at once; 0: one per core, up to four
};

/// Result of a search.
struct SearchResult {
  std::vector<LayoutForecast> best = {};  ///< fastest first; empty: none fits
  /// The fastest layout of the simplest approach that has one within kAboutAsFast of the first, if it is simpler than the
  /// first's and does not offload where the first does not.
  std::optional<LayoutForecast> simpler = {};
  std::vector<LeftOut> left_out = {};  ///< over memory, the closest to fit first, then illegal
  int64_t layouts = 0;                 ///< in the space
  int64_t illegal = 0;                 ///< refused by composition rules or divisions
  int64_t over_memory = 0;             ///< by bound or simulation
  int64_t bounded = 0;    ///< not simulated, as their bound is above the slowest of `best`, and they are not simpler
  int64_t simulated = 0;  ///< of which too_large are over memory, and counted there too
  int64_t too_large = 0;
  std::vector<std::string> space = {};  ///< what was searched, a line per key: "layout.tp: 1, 2, 4, 8"
  double seconds = 0.0;                 ///< that the search took
};

/// Searches. Throws InputError for an invalid recipe, unknown keys in the options, or hardware without links that every layout
/// needs.
SearchResult search_layouts(const Recipe& recipe, int world_size, const Hardware& hardware, const SearchOptions& options = {},
                            std::shared_ptr<CostTable> costs = nullptr);

}  // namespace weft
