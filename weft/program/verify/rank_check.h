// Checks of verify() that compare ranks: ranks at the same pipeline place issue the same collectives in the same order, and the
// ranks of a pipeline agree on collectives along the pipeline axis.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect. Every list must have passed list_check.h.
void check_ranks(const Program& program);

}  // namespace weft
