// List editing, shared by the passes.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// An instruction to insert, and its position.
struct Insertion {
  int after = -1;           ///< index in the old list of the instruction that it follows; -1 for the front
  Instruction instruction;  ///< the inserted instruction
};

/// Returns the list with the insertions; insertions after the same instruction keep their order. Indices change, so lists are
/// edited before passes/waits.h, which fills in `waits`.
InstructionList insert(InstructionList list, std::vector<Insertion> insertions);

/// True if `x` reads the weights of the block: runs it, or another block that uses them too (tied weights), forward or
/// backward. The weight part of a backward does not. `uses` is Program::block_uses, here and below.
bool reads_weights(const Instruction& x, int block, const std::vector<std::vector<int>>& uses);

/// Ascending instruction indices, by block.
using Positions = std::vector<std::vector<int>>;

/// Positions where reads_weights() is true.
Positions weight_reads(const InstructionList& list, const std::vector<std::vector<int>>& uses);

/// Positions that add to each block's gradients: a backward or weight part of the block or of one that uses its weights, or a
/// combine.
Positions gradient_writes(const InstructionList& list, const std::vector<std::vector<int>>& uses);

/// Latest position of any of the blocks [first, last); -1 if they have none.
int last_position(const Positions& positions, int first, int last);

/// Blocks whose weights the list reads, ascending.
std::vector<int> held_blocks(const InstructionList& list, const std::vector<std::vector<int>>& uses);

}  // namespace weft
