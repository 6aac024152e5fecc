// Checks of verify() on a single list.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect of the list that `rank` runs. The program's shape must be valid.
void check_list(const Program& program, int rank);

}  // namespace weft
