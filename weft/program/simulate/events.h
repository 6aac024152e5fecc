// Events: start and end of each instruction of a program. The inner half of simulate().
#pragma once

#include "weft/program/launches.h"
#include "weft/program/ranks.h"
#include "weft/program/simulate/hardware.h"
#include "weft/program/simulate/simulation.h"

namespace weft {

/// Sets the spans of simulation.ranks, whose ranks, counts and places are already set. Throws as simulate() does.
void run_events(const Program& program, const Hardware& hardware, const Ranks& ranks, const ModelLaunches& launches,
                Simulation& simulation);

}  // namespace weft
