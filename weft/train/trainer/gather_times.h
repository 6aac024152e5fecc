// gather_times: collects when every rank ran each instruction of a traced step.
#pragma once

#include <string>
#include <vector>

#include "weft/comm/group.h"
#include "weft/engine/engine.h"
#include "weft/program/program.h"
#include "weft/program/timed.h"

namespace weft {

/// A point in time, the same on all ranks, on this rank's clock. Ranks of one host have one clock; those of different hosts are
/// aligned by a barrier, which all leave together, but for what their processes wait for a core: the first of each host counts.
/// Collective over `world`, whose collectives run on `device`; `hosts` by rank.
double common_time(int rank, const std::vector<std::string>& hosts, const Group& world, at::Device device);

/// Times of all ranks, counted from the earliest; the same on every rank. `mine` are those of `rank`, by instruction. Clocks as
/// for common_time(). Collective over `world`, whose collectives run on `device`.
std::vector<TimedInstruction> gather_times(const Program& program, int rank, const std::vector<InstructionTime>& mine,
                                           const std::vector<std::string>& hosts, const Group& world, at::Device device);

}  // namespace weft
