// Checks of verify() that need no order: a list does all that a step needs, only on blocks that its rank holds, and over the
// right ranks.
#pragma once

#include "weft/program/verify/step_index.h"

namespace weft {

/// Throws VerifyError for the first defect; `at` indexes the list that `rank` runs.
void check_presence(const Program& program, int rank, const StepIndex& at);

}  // namespace weft
