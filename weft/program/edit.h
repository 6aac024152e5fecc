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

/// True when `x` runs the block, or another one that reads the block's weights too (tied weights), forward or backward.
bool runs(const Instruction& x, int block, const std::vector<std::vector<int>>& uses);

/// True when `x` adds to gradients of blocks [first, last): a backward that runs one of them, or a combine.
bool writes_gradients(const Instruction& x, int first, int last, const std::vector<std::vector<int>>& uses);

/// Index of the last instruction that does, or -1.
int last_gradient_write(const InstructionList& list, int first, int last, const std::vector<std::vector<int>>& uses);

}  // namespace weft
