// What of a run that ends now is on no disk, in words.
#pragma once

#include <array>
#include <string_view>

#include "weft/base/run_board.h"

namespace weft {

/// Of a run whose rank 0 tells the board its steps: " after step 120; not saved since step 100"; nothing where none is done. In
/// `buffer`, and nothing is allocated, as signal handlers call it.
std::string_view unsaved_text(const RunBoard& board, std::array<char, 160>& buffer);

}  // namespace weft
