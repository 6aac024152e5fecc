// resolve: what a recipe means for a given number of ranks: the mesh, and how the global batch falls into micro-batches.
//
// The textbook forms (layout.style) stand on the pp axis, on which ranks have lists of their own: it takes the ranks that
// remain. dp takes the ranks that remain once pp, cp and tp have their own, or shard where something is sharded. Micro-batch j
// of a step always holds samples [j m, (j + 1) m) of the global batch, and a rank takes a contiguous run of micro-batches. With
// run.reproducible_slots = S a step has a multiple of S equal micro-batches whose size does not depend on the number of ranks
// (by default global / S), each slot is the same contiguous run of them in any world, and every data-parallel rank owns the
// same number of slots: that is what equal bits rest on. Torch-free.
#pragma once

#include <cstdint>

#include "weft/plan/layout/layout.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// A recipe's layout in numbers: the counts of a step, and what they follow from.
struct ResolvedLayout : StepCounts {
  int world = 1;                                 ///< all ranks
  int64_t global_batch = 1;                      ///< samples per step, over all ranks
  int64_t micro_batch = 1;                       ///< samples per forward
  LayoutOptions options = {};                    ///< what is sharded, computed again, moved out
  int data_ranks() const { return dp * shard; }  ///< ranks that read different samples
  /// Ranks that compute different samples: those, or all that work for a master.
  int sample_ranks() const { return data_ranks() * (options.master ? pp : 1); }
};

/// The layout of a recipe on that many ranks. Throws InputError, naming the recipe's keys, when the mesh is not the world, or
/// when the batch does not divide.
ResolvedLayout resolve(const Recipe& recipe, int world_size);

}  // namespace weft
