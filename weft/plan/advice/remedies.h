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
  LayoutForecast forecast = {};  ///< the fastest layout then
};

/// Tries what the search leaves to the user, the cheapest first: the keys that it had to keep, then what changes results a
/// little, then more memory or ranks. Each is a search of its own.
std::vector<Remedy> find_remedies(const Recipe& recipe, int world_size, const Hardware& hardware, const SearchOptions& options,
                                  const std::shared_ptr<CostTable>& costs);

}  // namespace weft
