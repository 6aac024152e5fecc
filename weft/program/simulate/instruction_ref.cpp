#include "weft/program/simulate/instruction_ref.h"

#include <fmt/format.h>

namespace weft {

std::string describe(const Program& program, const Simulation& simulation, const InstructionRef& ref) {
  const int rank = simulation.ranks[ref.side].rank;
  return fmt::format("rank {}, instruction {} ({})", rank, ref.index,
                     describe(program.of(rank)[ref.index], program.block_names));
}

}  // namespace weft
