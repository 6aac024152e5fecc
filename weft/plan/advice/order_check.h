// order_check: whether the fastest of several layouts remains the fastest if the numbers of the hardware file are somewhat
// wrong.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "weft/plan/search/layout_search.h"

namespace weft {

/// Numbers of the hardware with which another layout is the fastest.
struct OrderChange {
  std::string numbers = {};      ///< which: "bytes per second between hosts"
  double slower = 1.0;           ///< factor on the time of what they describe: 1.1 or 1 / 1.1
  size_t fastest = 0;            ///< index of the layout that is the fastest then
  std::string layout = {};       ///< its text
  std::string measured_by = {};  ///< what measures them: "weft netcheck"
};

/// Result of check_order().
struct OrderCheck {
  double noise = 0.0;                     ///< by which numbers were changed: 0.1
  int layouts = 0;                        ///< compared: those that are close enough to become the fastest
  std::vector<OrderChange> changes = {};  ///< empty: the order holds
};

/// Simulates the layouts of `best`, fastest first, with each class of the hardware's numbers (operations, attention, memory,
/// launches, links) a tenth better and a tenth worse: two simulations per class and layout. One class alone makes no step more
/// than a tenth longer or shorter, so layouts that are further behind the first are left out.
OrderCheck check_order(const std::vector<LayoutForecast>& best, int world_size, const Hardware& hardware,
                       const std::shared_ptr<CostTable>& costs);

}  // namespace weft
