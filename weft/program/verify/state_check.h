// check_state: the part of verify() that follows where state is: whole weights between gather and release, the buffers that
// blocks share, what was offloaded.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect of this rank's list, whose indices and waits have been checked.
void check_state(const Program& program, int rank);

}  // namespace weft
