// Checks of verify() across pipeline ranks: every copy of a block is run by one of them, every message matches its receive, and
// no deadlock is possible.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect among `ranks`, the world ranks along one line of the pipeline axis.
///
/// Deadlock is checked under the strictest rules: an instruction finishes before its rank's next one starts, a send once its
/// receive has started, a collective over the line once all have started it. A program that passes runs on any engine.
void check_transfers(const Program& program, const std::vector<int>& ranks);

}  // namespace weft
