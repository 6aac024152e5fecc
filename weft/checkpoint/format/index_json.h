// Converts a checkpoint's index to JSON and back.
#pragma once

#include <string>

#include "weft/checkpoint/format/index.h"

namespace weft {

/// Returns the index as JSON.
std::string index_text(const CheckpointIndex& index);

/// Parses an index. Throws InputError, beginning with `where`, for text that is not an index, is of a newer version, or
/// contradicts itself: each element of a tensor must be in one piece, each piece within its file, each byte of a file in one
/// piece. Part of an index, as one rank wrote it (`whole` = false), may lack elements.
CheckpointIndex parse_index(const std::string& text, const std::string& where, bool whole = true);

}  // namespace weft
