// resolve: turns a recipe into a mesh and micro-batches for a given number of ranks.
//
// The textbook forms (layout.style) use the pp axis, where each rank has its own list, and take all remaining ranks. dp takes
// the ranks that pp, cp and tp leave, or shard does if anything is sharded. Micro-batch j of a step always holds samples [j m,
// (j + 1) m) of the global batch, and a rank takes a contiguous run of micro-batches. With run.reproducible_slots = S a step
// has a multiple of S equal micro-batches whose size does not depend on the number of ranks (by default global / S), each slot
// is the same contiguous run in any world, and every data-parallel rank owns the same number of slots; bitwise equality depends
// on that. Torch-free.
#pragma once

#include <cstdint>

#include "weft/plan/layout/layout.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// A recipe's layout in numbers: the counts of a step, and the values they come from.
struct ResolvedLayout : StepCounts {
  int world = 1;                                 ///< all ranks
  int64_t global_batch = 1;                      ///< samples per step, over all ranks
  int64_t micro_batch = 1;                       ///< samples per forward
  LayoutOptions options = {};                    ///< sharding, recompute, offload
  int data_ranks() const { return dp * shard; }  ///< ranks that read different samples
  /// Ranks that compute different samples: data_ranks(), or all ranks that work for a master.
  int sample_ranks() const { return data_ranks() * (options.master ? pp : 1); }
};

/// Returns the layout of a recipe on `world_size` ranks. Throws InputError naming the recipe's keys if the mesh does not match
/// the world, or the batch does not divide.
ResolvedLayout resolve(const Recipe& recipe, int world_size);

}  // namespace weft
