// layout_forecast: the predicted step of a recipe's layout, with what limits it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/plan/cost/cost_table.h"
#include "weft/plan/search/layout_text.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// A layout of the recipe and its predicted step.
struct LayoutForecast {
  Recipe recipe;                    ///< with this layout
  std::vector<KeyValue> keys = {};  ///< keys that differ from the default layout, in the order of a recipe
  std::string text = {};            ///< in short: "dp 4 x tp 2, ZeRO-1, 8 micro-batches of 4, recompute attention"
  Approach approach = Approach::single_device;
  double step_s = 0.0;
  double samples_per_s = 0.0;
  double tokens_per_s = 0.0;     ///< 0 for models that read images
  double mfu = 0.0;              ///< Simulation::utilisation
  double busy_s = 0.0;           ///< computing, on the busiest rank
  double exposed_s = 0.0;        ///< waiting for bytes in flight, on the rank that waits most
  double bubble_share = 0.0;     ///< Simulation::bubble_share()
  double launch_share = 0.0;     ///< Simulation::launch_bound_share()
  double recompute_share = 0.0;  ///< of all operations
  int64_t memory_bytes = 0;      ///< of the fullest rank, as `weft simulate` prints
  int64_t reserved_bytes = 0;    ///< what the fullest rank's allocator takes for it at least, as `weft memory` prints
  int fullest_rank = 0;
  std::string limited_by = {};  ///< what it would take to be faster: "all-reduces of tp exposed for 0.42 s of 1.9 s"
};

/// Returns the forecast of a recipe as it is. Throws InputError as recipe_simulation() does.
LayoutForecast layout_forecast(const Recipe& recipe, int world_size, const Hardware& hardware,
                               std::shared_ptr<CostTable> costs = nullptr);

}  // namespace weft
