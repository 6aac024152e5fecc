// Placing instructions into a list: what passes have in common.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

struct Insertion {
  int after = -1;  ///< index of the instruction of the old list that it follows; -1 for the front
  Instruction instruction;
};

/// The list with the insertions in place; those after the same instruction keep their order. Instructions move, so lists are
/// edited before passes/waits.h, which fills in `waits`.
InstructionList insert(InstructionList list, std::vector<Insertion> insertions);

/// True when `x` reads the weights of the block: runs it, or another one that uses them too (tied weights), forward or
/// backward. A backward's weight part reads none.
bool reads_weights(const Instruction& x, int block, const std::vector<std::vector<int>>& uses);

/// By block: indices of instructions of a list, ascending.
using Positions = std::vector<std::vector<int>>;

/// Where reads_weights() is true.
Positions weight_reads(const InstructionList& list, const std::vector<std::vector<int>>& uses);

/// What adds to the block's gradients: a backward or a backward's weight part of one that holds or uses them, or a combine.
Positions gradient_writes(const InstructionList& list, const std::vector<std::vector<int>>& uses);

/// The latest of those of blocks [first, last), or -1.
int last_position(const Positions& positions, int first, int last);

/// The blocks whose weights the list reads, ascending.
std::vector<int> held_blocks(const InstructionList& list, const std::vector<std::vector<int>>& uses);

}  // namespace weft
