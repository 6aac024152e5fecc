// stage_ranks: which pipeline rank runs each block.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// For each block the index on the pipeline axis of the rank that runs it; -1 where none does. Throws as check_program() does.
std::vector<int> stage_rank_of_block(const Program& program);

}  // namespace weft
