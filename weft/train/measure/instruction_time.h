// instruction_time: what an instruction takes besides its operators: the engine, autograd, and allocations of a block's call.
#pragma once

#include <chrono>

#include "weft/comm/world.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

/// Seconds per forward or backward of a block, the median over the blocks of a GPT too small to compute anything, beyond what
/// hardware.operators says of its operators. Trains it for a few steps, on the kind of device and with the threads of the
/// hardware. Collective over the world; no rank waits longer than `timeout` for a peer.
double instruction_time(const World& world, const Hardware& hardware, int threads, std::chrono::milliseconds timeout);

}  // namespace weft
