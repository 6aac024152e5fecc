// The checks of verify() that concern several pipeline ranks: that every copy of a block is run by one of them, that every
// message sent is the one received, and that they cannot deadlock.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect among `ranks`, the world ranks along one line of the pipeline axis.
///
/// Deadlock is looked for under the hardest rules: every instruction is finished before the next one of its rank starts, a send
/// only once its receive has been started, and collectives over the line once all have. What passes runs on any engine.
void check_transfers(const Program& program, const std::vector<int>& ranks);

}  // namespace weft
