// gather_times: when every rank ran each instruction of a traced step.
#pragma once

#include <vector>

#include "weft/comm/group.h"
#include "weft/engine/engine.h"
#include "weft/program/program.h"
#include "weft/program/timed.h"

namespace weft {

/// `mine` are those of `rank`, by instruction. Counted from the first of all ranks; ranks of different hosts are set side by
/// side by this call, which they leave together. Collective over `world`, whose collectives run on `device`.
std::vector<TimedInstruction> gather_times(const Program& program, int rank, const std::vector<InstructionTime>& mine,
                                           const Group& world, at::Device device);

}  // namespace weft
