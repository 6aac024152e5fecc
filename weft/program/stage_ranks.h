// stage_ranks: which pipeline rank runs each block; with a master (master.h), which all run for, the one that owns it.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// For each block the index on the pipeline axis of that rank; -1 where none runs it. Throws as check_program() does.
std::vector<int> stage_rank_of_block(const Program& program);

}  // namespace weft
