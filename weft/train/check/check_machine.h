// check_machine: is this machine, or this cluster, sound? What `weft check` does on every rank.
//
// In order: versions, hosts (cores, memory, limits, /dev/shm), clocks of hosts, devices, collectives of every group, layouts
// and their memory, links. A failed value does not end it. A rank that dies, or a call that does not end, does: the line of
// that part fails, and the later parts are not checked.
#pragma once

#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/train/check/check_line.h"
#include "weft/train/check/check_options.h"

namespace weft {

/// Throws InputError unless the options are values of run.device and layout.backend. Call it before ranks start.
void check_names(const CheckOptions& options);

/// Checks; returns all lines on rank 0. Collective over the world. Throws the CommError of a rank that died or does not answer,
/// after the remaining lines were reported.
std::vector<CheckLine> check_machine(const World& world, const CheckOptions& options);

/// "4 ranks on 1 host (node7)".
std::string check_heading(const World& world);

}  // namespace weft
