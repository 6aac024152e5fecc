// Placing instructions into a list: what passes have in common.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// An instruction, and where it goes.
struct Insertion {
  int after = -1;  ///< index of the instruction of the old list that it follows; -1 for the front, below the list's size
  Instruction instruction;  ///< what is inserted
};

/// The list with the insertions in place; those after the same instruction keep their order. Instructions move, so lists are
/// edited before passes/waits.h, which fills in `waits`.
InstructionList insert(InstructionList list, std::vector<Insertion> insertions);

/// True when `x` reads the weights of the block: runs it, or another one that uses them too (tied weights), forward or
/// backward. A backward's weight part reads none. `uses` is Program::block_uses, here and below.
bool reads_weights(const Instruction& x, int block, const std::vector<std::vector<int>>& uses);

/// Indices of instructions of a list, ascending, for each block.
using Positions = std::vector<std::vector<int>>;

/// The instructions for which reads_weights() is true.
Positions weight_reads(const InstructionList& list, const std::vector<std::vector<int>>& uses);

/// The instructions that add to each block's gradients: a backward or a backward's weight part of the block or of one that uses
/// its weights, or a combine.
Positions gradient_writes(const InstructionList& list, const std::vector<std::vector<int>>& uses);

/// The latest of the positions of blocks [first, last), or -1.
int last_position(const Positions& positions, int first, int last);

/// The blocks whose weights the list reads, ascending.
std::vector<int> held_blocks(const InstructionList& list, const std::vector<std::vector<int>>& uses);

}  // namespace weft
