// Host memory of a rank, for schedulers that need it in advance.
#pragma once

#include <cstdint>

#include "weft/plan/forecast.h"

namespace weft {

/// Host bytes of one rank: the part of recipe_memory()'s forecast that is not on the rank's GPU, if it was planned for one
/// (copies of the state and host offload stay on the host), the data reader, and a typical allowance for the process itself
/// (0.5 GiB on a CPU, 4 GiB with a GPU). A first bound, not a measurement.
int64_t host_bytes_of_rank(const Recipe& recipe, const RecipeMemory& memory);

}  // namespace weft
