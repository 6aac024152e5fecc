// Consistency checks of an index, which may be damaged or edited.
#pragma once

#include "weft/checkpoint/format/index.h"

namespace weft {

/// Throws InputError for the contradictions listed at parse_index(). Memory: 16 bytes per piece, plus 16 per run of one tensor.
void check_index(const CheckpointIndex& index, bool whole);

/// Returns the number of elements of a shape; throws InputError if that overflows or a dim is negative.
int64_t checked_numel(const std::vector<int64_t>& shape);

}  // namespace weft
