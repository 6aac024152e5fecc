// remedies: what would make a recipe fit when no layout does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/plan/search/layout_search.h"

namespace weft {

/// A change with which a layout fits.
struct Remedy {
  std::string text = {};         ///< "with --set layout.precision=bf16, which changes results"
  LayoutForecast forecast = {};  ///< a layout that fits then
};

/// Tries what the search leaves to the user, the cheapest first: the keys that it had to keep, then what changes results a
/// little, then more memory or ranks. Each is a search of its own, of at most some hundred simulations. `is_full`: memory is
/// what layouts lack; if it is not, only the kept keys are tried.
std::vector<Remedy> find_remedies(const Recipe& recipe, int world_size, const Hardware& hardware, const SearchOptions& options,
                                  bool is_full, const std::shared_ptr<CostTable>& costs);

}  // namespace weft
