// What a recipe needs: its program's memory, on any number of ranks, without data, devices or weights.
#pragma once

#include <vector>

#include "weft/program/memory.h"
#include "weft/train/plan.h"
#include "weft/train/recipe.h"

namespace weft {

struct RecipeMemory {
  Plan plan;
  int64_t parameters = 0;                     ///< trained elements of the whole model, without padding
  std::vector<MemoryEstimate> by_place = {};  ///< of the ranks at each place of the pipeline axis; the others hold the same
  int fullest = 0;                            ///< where most is held
  const MemoryEstimate& estimate() const { return by_place[static_cast<size_t>(fullest)]; }
};

/// What estimate_memory() and simulate() need to know beside the program, for a place of the pipeline axis.
MemoryOptions memory_options(const Recipe& recipe, const Plan& plan, int place);

/// Of a rank at each place of the pipeline axis.
std::vector<MemoryEstimate> memory_by_place(const Recipe& recipe, const Plan& plan);

/// The place where most is held.
int fullest_place(const std::vector<MemoryEstimate>& by_place);

/// Throws InputError as resolve() does.
RecipeMemory recipe_memory(const Recipe& recipe, int world_size);

}  // namespace weft
