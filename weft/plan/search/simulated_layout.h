// simulated_layout: what a simulation says of a layout of a search.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/plan/cost/cost_table.h"
#include "weft/plan/search/search_space.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

/// A simulated step.
struct SimulatedLayout {
  double step_s = 0.0;
  int64_t bytes = 0;         ///< of the fullest rank
  std::string why_not = {};  ///< not empty: the layout is illegal
};

/// Simulates a layout. Thread-safe.
SimulatedLayout simulated_layout(const SearchSpace& space, const LayoutChoice& choice, const Hardware& hardware,
                                 const std::shared_ptr<CostTable>& costs);

/// Returns why a phase of the recipe's batch.ramp has no program; empty if each has one.
std::string why_no_ramp(const Recipe& recipe, int world_size, const std::shared_ptr<CostTable>& costs);

}  // namespace weft
