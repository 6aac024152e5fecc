// The checks of verify() that concern one list by itself.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect of the list that `rank` runs. The program's shape must be in order.
void check_list(const Program& program, int rank);

}  // namespace weft
