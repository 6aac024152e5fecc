// check_state: the part of verify() that tracks state: whole weights between gather and release, shared buffers, offloaded
// state.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect of this rank's list. Its indices and waits must have been checked.
void check_state(const Program& program, int rank);

}  // namespace weft
