// Text that describes the unsaved part of a run that ends now.
#pragma once

#include <array>
#include <string_view>

#include "weft/base/run_board.h"

namespace weft {

/// Returns, for a run whose rank 0 reports steps to the board, " after step 120; not saved since step 100"; empty if no step is
/// done. Writes to `buffer` and allocates nothing, because signal handlers call it.
std::string_view unsaved_text(const RunBoard& board, std::array<char, 160>& buffer);

}  // namespace weft
