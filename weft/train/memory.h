// What a recipe needs: its program's memory, on any number of ranks, without data, devices or weights.
#pragma once

#include "weft/program/memory.h"
#include "weft/train/recipe.h"
#include "weft/train/resolve.h"

namespace weft {

struct RecipeMemory {
  ResolvedLayout layout;
  Program program;
  int64_t parameters = 0;   ///< trained elements of the whole model, without padding
  MemoryEstimate estimate;  ///< of a rank; all ranks of a data-parallel layout hold the same
};

/// Throws InputError as resolve() does.
RecipeMemory recipe_memory(const Recipe& recipe, int world_size);

}  // namespace weft
