// replay: a measured step once more with other times, by the same dependencies: what a faster operator, link or rank would win.
#pragma once

#include <vector>

#include "weft/program/profile/measured_step.h"
#include "weft/program/profile/partners.h"

namespace weft {

/// What an instruction takes, in seconds.
struct InstructionCost {
  double host_s = 0.0;   ///< before it, of the rank's host
  double runs_s = 0.0;   ///< of the rank's own, without inner_s
  double inner_s = 0.0;  ///< of collectives within its block
  double moves_s = 0.0;  ///< for bytes, once all that it meets have come; 0 if the rank did not wait for them
  bool meets = false;  ///< it ends no sooner than all that meet have come; false for a message that left before it was awaited
  bool holds_rank = false;  ///< the rank goes on when it has ended
};

/// Costs by rank and instruction.
using StepCosts = std::vector<std::vector<InstructionCost>>;

/// Costs of a measured step. Throws as check_measured() does.
StepCosts costs_of(const Program& program, const Partners& partners, const MeasuredStep& step);

/// Time of the step with these costs, from when each rank begins in `step`. Throws Error if ranks wait for one another in a
/// cycle.
double replayed_seconds(const Program& program, const Partners& partners, const MeasuredStep& step, const StepCosts& costs);

}  // namespace weft
