// BatchRecipe: the section [batch] of a recipe. Plain data.
#pragma once

#include <cstdint>
#include <optional>

#include "weft/base/batch_sizes.h"

namespace weft {

/// The section [batch].
struct BatchRecipe {
  int64_t global = 0;  ///< samples per step, over all ranks
  /// Samples per forward; default: global / data-parallel ranks, or / slots; with a pipeline, a fraction of that.
  std::optional<int64_t> micro;
  BatchRamp ramp = {};    ///< steps with smaller global batches first; needs `micro`
  int64_t reference = 0;  ///< the global batch that optimizer.lr was found for; 0: not given
};

}  // namespace weft
