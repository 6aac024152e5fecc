// Which blocks share memory. Blocks whose whole weights (or whole gradients) are never there at the same time get the same
// buffer, so that a sharded step holds a few buffers of whole blocks and makes or frees none while it runs.
//
// A buffer is as large as its largest block. Numbers are the smallest possible, block by block, as in colouring an interval
// graph; for a chain with depth d of prefetch that is d + 1 buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/program.h"

namespace weft {

/// The number of the buffer of each block's whole weights; empty where they stay (all levels but parameters).
std::vector<int> weight_buffers(const InstructionList& list, const Program& program);

/// The number of the buffer of each block's whole gradients; empty where each block has its own (levels none and optimizer). A
/// reduce-scatter may still be under way while the next `in_flight` blocks run backward.
std::vector<int> gradient_buffers(const InstructionList& list, const Program& program, int in_flight);

/// Bytes of all buffers together, each as large as its largest block.
int64_t buffer_bytes(const std::vector<int>& buffer_of_block, const std::vector<int64_t>& block_bytes);

}  // namespace weft
