// stage_ranks: which pipeline rank runs each block; of several copies (copies.h) the one that owns it, the first.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// For each block the index on the pipeline axis of that rank; -1 where none runs it. Throws as check_program() does.
std::vector<int> stage_rank_of_block(const Program& program);

}  // namespace weft
