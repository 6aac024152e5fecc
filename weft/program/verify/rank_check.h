// The checks of verify() that compare ranks: that those of one pipeline rank meet others for the same things in the
// same order, and that those along it share the collectives of the axes that run along it.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect. Every list must be in order by itself (list_check.h).
void check_ranks(const Program& program);

}  // namespace weft
