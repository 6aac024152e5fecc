// The checks of verify() that need no order: that a list has all that a step needs, on blocks that its rank holds and over the
// ranks that hold the rest.
#pragma once

#include "weft/program/verify/step_index.h"

namespace weft {

/// Throws VerifyError for the first defect; `at` are the places of the list that `rank` runs.
void check_presence(const Program& program, int rank, const StepIndex& at);

}  // namespace weft
