// The JSON of a checkpoint's index, and back.
#pragma once

#include <string>

#include "weft/checkpoint/format/index.h"

namespace weft {

/// The index as JSON.
std::string index_text(const CheckpointIndex& index);

/// What `text` says. Throws InputError, beginning with `where`, for text that is no index, of a newer version, or that
/// contradicts itself: each element of a tensor must be in one piece, each piece within its file, of each file every byte in
/// one piece. A part that some rank wrote (`whole` = false) need not have all elements.
CheckpointIndex parse_index(const std::string& text, const std::string& where, bool whole = true);

}  // namespace weft
