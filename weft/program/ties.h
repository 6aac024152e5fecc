// Ties: weights of a block that other blocks read too (Program::block_uses).
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// True if a block reads the weights of another.
bool has_ties(const Program& program);

/// Blocks that read a block's weights, itself included, ascending; they may run on any ranks.
std::vector<int> users_of(const Program& program, int block);

/// Returns, by block, those of its users that the list runs.
std::vector<std::vector<int>> users_run(const Program& program, const InstructionList& list);

/// Number of separate sums (rows) of a tied block's gradients on the wire, if several pipeline ranks hold it. Two uses on two
/// ranks need one row, since the order of two operands does not matter. With more uses each has a row, zero on the other ranks,
/// so that all ranks add the rows in one order.
int tied_rows(const Program& program, int block);

}  // namespace weft
