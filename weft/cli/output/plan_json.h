// What `weft plan` prints with --json.
#pragma once

#include <string>
#include <vector>

#include "weft/plan/advice/order_check.h"
#include "weft/plan/advice/remedies.h"
#include "weft/plan/search/layout_search.h"

namespace weft {

/// The fastest layouts, whether their order holds, and what was searched and left out; without a layout what would make one
/// fit.
std::string plan_json(const std::string& recipe, int ranks, const std::string& hardware, const SearchResult& result,
                      const OrderCheck& order, const std::vector<Remedy>& remedies);

}  // namespace weft
