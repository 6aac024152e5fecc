// Ties: weights of a block that others read too (Program::block_uses).
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// Whether a block reads the weights of another.
bool has_ties(const Program& program);

/// The blocks that read a block's weights, itself among them: ascending, whichever ranks run them.
std::vector<int> users_of(const Program& program, int block);

/// By block: those of them that the list runs.
std::vector<std::vector<int>> users_run(const Program& program, const InstructionList& list);

/// Sums of a tied block's gradients that go over the wire side by side where several pipeline ranks hold it. Two uses on two
/// ranks are two operands, whose order does not matter: one. Of more uses each has a row, which the other ranks' zeros join, so
/// that all of them add the rows in one order.
int tied_rows(const Program& program, int block);

}  // namespace weft
