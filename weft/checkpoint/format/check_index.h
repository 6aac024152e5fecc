// What an index must not contradict itself in, however it was damaged or edited.
#pragma once

#include "weft/checkpoint/format/index.h"

namespace weft {

/// Throws InputError for what parse_index() says. Costs no memory that the index itself does not take many times.
void check_index(const CheckpointIndex& index, bool whole);

/// Elements of a shape; throws InputError where there are too many to count, or a dim is negative.
int64_t checked_numel(const std::vector<int64_t>& shape);

}  // namespace weft
