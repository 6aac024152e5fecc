// simulate: how long a step takes, who waits for whom, and what memory it needs, for any number of ranks and without devices.
//
// Event-driven, by the rules of instruction.h and with the costs of work_time.h and network.h. Instructions of a rank start in
// list order, each after all that it waits for. A collective begins when the last member has started it and each member's port
// is free, and ends for all at once. Messages from one rank to another are sent one after the other; a receive ends when its
// message is there, or when it is started, if later. Where hardware does not overlap, every instruction waits for the one
// before it, and a receive takes as long as the send.
//
// Columns of one class (ranks.h) are simulated once: time and memory grow with the instructions of distinct columns only.
#pragma once

#include <vector>

#include "weft/program/memory.h"
#include "weft/program/program.h"
#include "weft/program/simulate/hardware.h"
#include "weft/program/simulate/simulation.h"

namespace weft {

/// Simulates a step. The same program gives the same bits. `memory` is by place on the pipeline axis; empty: as MemoryOptions
/// has it.
///
/// Throws Error, naming rank and instruction, for what would never end: a collective that a member does not join, a receive
/// without a send, a message that is not the one expected or that nobody takes. Throws InputError for hardware that makes no
/// sense, that lacks a link the program uses or times blocks it does not have, for another number of memory options
/// than places, and for a step of more than 1e15 s.
Simulation simulate(const Program& program, const Hardware& hardware, const std::vector<MemoryOptions>& memory = {});

}  // namespace weft
