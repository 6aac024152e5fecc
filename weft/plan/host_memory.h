// What a rank takes of its machine's memory: for who must tell a cluster beforehand.
#pragma once

#include <cstdint>

#include "weft/plan/forecast.h"

namespace weft {

/// Bytes of one rank: what recipe_memory() forecasts, where it is not on the rank's GPU (copies of the state and what is
/// offloaded to the host stay there), what reading data holds, and the process itself, for which experience stands (0.5 GiB on
/// a CPU, 4 GiB with CUDA). A bound to begin with, not a measurement.
int64_t host_bytes_of_rank(const Recipe& recipe, const RecipeMemory& memory, bool on_gpu);

}  // namespace weft
