// PhaseTimes: a rank's times in the phases of a step, from the times of its instructions.
#pragma once

#include <vector>

#include "weft/engine/results.h"
#include "weft/program/program.h"

namespace weft {

/// Seconds of one rank in one step. Collectives and loading are in none of them.
struct PhaseTimes {
  double forward_s = 0.0;   ///< with the loss, and recompute
  double backward_s = 0.0;  ///< with sums over slots
  double update_s = 0.0;    ///< with norms
};

/// `times` is by instruction of the list; empty: all are 0.
PhaseTimes phase_times(const InstructionList& list, const std::vector<InstructionTime>& times);

}  // namespace weft
