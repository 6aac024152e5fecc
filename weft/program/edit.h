// Placing instructions into a list: what passes have in common.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

struct Insertion {
  int after = -1;  ///< index of the instruction of the old list that it follows; -1 for the front
  Instruction instruction;
};

/// A copy of `list` with the insertions in place; those after the same instruction keep their order. Instructions move, so
/// lists are edited before passes/waits.h, which fills in `waits`.
InstructionList insert(const InstructionList& list, const std::vector<Insertion>& insertions);

/// True when `x` reads the weights of the block: runs it, or another one that uses them too (tied weights), forward or
/// backward. A backward's weight part reads none.
bool runs(const Instruction& x, int block, const std::vector<std::vector<int>>& uses);

/// The blocks whose weights the list reads, ascending.
std::vector<int> held_blocks(const InstructionList& list, const std::vector<std::vector<int>>& uses);

/// True when `x` adds to gradients of blocks [first, last): a backward or a backward's weight part of one that
/// holds or uses them, or a combine.
bool writes_gradients(const Instruction& x, int first, int last, const std::vector<std::vector<int>>& uses);

/// Index of the last instruction that does, or -1.
int last_gradient_write(const InstructionList& list, int first, int last, const std::vector<std::vector<int>>& uses);

}  // namespace weft
