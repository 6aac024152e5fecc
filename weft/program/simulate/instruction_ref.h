// InstructionRef: an instruction of a simulated rank.
#pragma once

#include <string>

#include "weft/program/program.h"
#include "weft/program/simulate/simulation.h"

namespace weft {

/// An instruction of a simulated rank.
struct InstructionRef {
  int side = 0;   ///< index into Simulation::ranks
  int index = 0;  ///< into that rank's list
};

/// Text of an instruction, for errors: "rank 3, instruction 12 (reduce of block 0 'h.0')".
std::string describe(const Program& program, const Simulation& simulation, const InstructionRef& ref);

}  // namespace weft
