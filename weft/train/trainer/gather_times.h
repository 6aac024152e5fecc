// gather_times: collects when every rank ran each instruction of a traced step.
#pragma once

#include <vector>

#include "weft/comm/group.h"
#include "weft/engine/engine.h"
#include "weft/program/program.h"
#include "weft/program/timed.h"

namespace weft {

/// Times of all ranks, counted from the earliest; the same on every rank. `mine` are those of `rank`, by instruction. Clocks of
/// different hosts are aligned by a barrier, which all leave together. Collective over `world`, whose collectives run on
/// `device`.
std::vector<TimedInstruction> gather_times(const Program& program, int rank, const std::vector<InstructionTime>& mine,
                                           const Group& world, at::Device device);

}  // namespace weft
