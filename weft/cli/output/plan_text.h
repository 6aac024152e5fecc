// What `weft plan` prints about a search for layouts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/plan/advice/order_check.h"
#include "weft/plan/advice/remedies.h"
#include "weft/plan/search/layout_search.h"

namespace weft {

/// A layout's measured step.
struct MeasuredLayout {
  double step_s = 0.0;       ///< median of the rounds' medians; 0: not measured
  std::string failure = {};  ///< why not
};

/// What a search found, and what is said about it.
struct PlanReport {
  std::string recipe = {};                    ///< path
  int ranks = 1;                              ///< number of ranks
  std::string hardware = {};                  ///< Hardware::name
  SearchResult result = {};                   ///< of the search; `best` has those to show
  int sought = 0;                             ///< layouts that the search looked for: those shown, or more
  OrderCheck order = {};                      ///< of the fastest that it found
  std::vector<Remedy> remedies = {};          ///< if nothing fits
  std::vector<MeasuredLayout> measured = {};  ///< of result.best, with --measure
  std::optional<size_t> chosen = 0;           ///< index of the layout to take; empty: none could be measured
};

/// A table of the fastest layouts, each with what it is and what limits it.
std::string best_layouts_text(const std::vector<LayoutForecast>& best);
/// The rule of the field that a layout follows, as a sentence.
std::string approach_text(Approach approach);
/// SearchResult::simpler, if there is one.
std::string simpler_text(const SearchResult& result);
/// The approach as one word or two, for scripts: "sharded states".
std::string approach_name(Approach approach);
/// Whether the order of the best holds, or which number decides it and what measures that number; `shown`: layouts with a row.
std::string order_text(const OrderCheck& check, size_t shown);
/// What the search left out and why: the closest first, at most `most` groups.
std::string left_out_text(const std::vector<LeftOut>& left_out, size_t most);
/// How many layouts were searched, and what became of them.
std::string counts_text(const PlanReport& report);
/// The space, a line per key.
std::string space_text(const std::vector<std::string>& space);
/// Measured steps beside predicted ones, and which layout is the fastest; `crowding` ends the first line (ranks/recipe_runs.h).
std::string measured_text(const PlanReport& report, const std::string& crowding);
/// What would make a layout fit, the cheapest first.
std::string remedies_text(const std::vector<Remedy>& remedies);
/// The line of the error when no layout fits, or none is possible.
std::string why_none_fits(const PlanReport& report);

}  // namespace weft
