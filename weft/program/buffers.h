// Assigns blocks to shared buffers. Blocks whose whole weights (or whole gradients) never exist at the same time share a
// buffer, so a sharded step holds a few buffers of whole blocks and allocates none while it runs.
//
// A buffer is as large as its largest block. Each block gets the smallest free number, as in coloring an interval graph; a
// chain with prefetch depth d needs d + 1 buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/program.h"

namespace weft {

/// Buffer number of each block's whole weights; empty if whole weights are kept (all levels except parameters).
std::vector<int> weight_buffers(const InstructionList& list, const Program& program);

/// Buffer number of each block's whole gradients; empty if each block has its own (levels none and optimizer). A reduce-scatter
/// may still be in flight while the next `in_flight` blocks run backward.
std::vector<int> gradient_buffers(const InstructionList& list, const Program& program, int in_flight);

/// Total bytes of all buffers, each as large as its largest block.
int64_t buffer_bytes(const std::vector<int>& buffer_of_block, const std::vector<int64_t>& block_bytes);

}  // namespace weft
