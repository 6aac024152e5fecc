// simulate: step time, waits and memory, for any number of ranks and without devices.
//
// Event-driven, by the rules of instruction.h and with the costs of work_time.h and network.h. Instructions of a rank start in
// list order, each after all of its waits. A collective begins when the last member has started it and each member's port is
// free, and ends for all members at once. Messages from one rank to another are sent one after the other; a receive ends when
// its message has arrived, or when the receive starts, if that is later. If the hardware does not overlap, every instruction
// waits for the one before it, and a receive takes as long as the send. With CollectiveCosts::taken_from_compute, compute
// beside a collective takes longer (slowdown.h). Other software may sum gradients later (late_sums.h).
//
// With Hardware::host_launch_s each rank has a host that gives the device its work in list order (program/launches.h), ahead of
// it: an instruction begins once it has its first launch, and the last of its kernels, which are taken as equally long, once it
// has its last. Where the host waits, it goes on once the device has caught up. The host begins a step as far ahead of the
// device as it ended the one before.
//
// Columns of one class (ranks.h) are simulated once: time and memory grow only with the instructions of distinct columns.
#pragma once

#include <vector>

#include "weft/program/launches.h"
#include "weft/program/memory.h"
#include "weft/program/program.h"
#include "weft/program/simulate/hardware.h"
#include "weft/program/simulate/simulation.h"

namespace weft {

/// Simulates a step. The same program gives the same bits. `memory` is by place on the pipeline axis; empty: default
/// MemoryOptions. `launches` are of the program's model, for hardware with host_launch_s.
///
/// Throws Error naming rank and instruction, for a deadlock: a collective that a member does not join, a receive without a
/// send, an unexpected message or one that is never received. Throws InputError for invalid hardware, hardware that lacks a
/// link the program uses or times blocks it does not have, for memory options that do not match the number of places, and for a
/// step of more than 1e15 s.
Simulation simulate(const Program& program, const Hardware& hardware, const std::vector<MemoryOptions>& memory = {},
                    const ModelLaunches& launches = {});

}  // namespace weft
