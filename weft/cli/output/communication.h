// Communication of a simulated rank, call by call: what the device waits for, and what has work beside it.
#pragma once

#include <string>
#include <vector>

#include "weft/program/program.h"
#include "weft/program/simulate/simulation.h"

namespace weft {

/// A collective, a message or a copy; or the calls inside a block's pass.
struct Communication {
  std::string what;        ///< "reduce of blocks 1 'h.0' to 3 'h.2'"
  double seconds = 0.0;    ///< its bytes are in flight; of a pass, all of it
  double exposed_s = 0.0;  ///< what of this the device waits for
};

/// Returns all of a rank, in list order.
std::vector<Communication> communication_of(const Program& program, const SimulatedRank& rank);

/// Returns the one that is exposed longest; null if none is.
const Communication* most_exposed(const std::vector<Communication>& all);

}  // namespace weft
