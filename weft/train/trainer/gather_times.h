// gather_times: when every rank ran each instruction of a traced step.
#pragma once

#include <vector>

#include "weft/comm/group.h"
#include "weft/engine/engine.h"
#include "weft/program/program.h"
#include "weft/program/timed.h"

namespace weft {

/// The times of all ranks, counted from the first of them; the same on every rank. `mine` are those of `rank`, by instruction.
/// Ranks of different hosts are set side by side by a barrier, which they leave together. Collective over `world`, whose
/// collectives run on `device`.
std::vector<TimedInstruction> gather_times(const Program& program, int rank, const std::vector<InstructionTime>& mine,
                                           const Group& world, at::Device device);

}  // namespace weft
