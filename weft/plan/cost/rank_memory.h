// Memory of a recipe's program, on any number of ranks, without data, devices or weights.
#pragma once

#include <vector>

#include "weft/plan/layout/plan.h"
#include "weft/program/memory.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Bytes of a rank's group buffers: CPUs of one host share memory (`host_of_rank`: numbers, by world rank), in groups of
/// several hosts those of each. 0 on GPUs and with other back ends.
int64_t group_buffer_bytes(const Recipe& recipe, const Plan& plan, int rank, const std::vector<int>& host_of_rank);

/// Options of estimate_memory() and simulate() for a place on the pipeline axis. `ranks_per_host`: consecutive ranks; 0: not
/// known, up to 16 ranks count as one host's, and more have no group buffers.
MemoryOptions memory_options(const Recipe& recipe, const Plan& plan, int pp_rank, int ranks_per_host = 0);

/// Memory of a rank at each place on the pipeline axis; ranks_per_host as above.
std::vector<MemoryEstimate> memory_by_stage_rank(const Recipe& recipe, const Plan& plan, int ranks_per_host = 0);

/// The place with the largest estimate.
int fullest_stage_rank(const std::vector<MemoryEstimate>& by_stage_rank);

}  // namespace weft
