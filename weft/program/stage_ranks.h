// stage_ranks: the pipeline rank that runs each block; with several copies (copies.h), the first, which owns the block.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// Returns the index on the pipeline axis of each block's rank; -1 if no rank runs the block. Throws as check_program() does.
std::vector<int> stage_rank_of_block(const Program& program);

}  // namespace weft
