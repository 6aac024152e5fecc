// check_inner_calls: the part of check_program() for collectives inside blocks and the loss.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Checks the program's block_calls and loss_calls: calls are given for every block or for no block, each is along inner_axes()
/// with several ranks, and bytes and rounds are countable, also in total per run of a block. Throws VerifyError: out_of_range,
/// wrong_axis, bad_bytes. The mesh must be in range.
void check_inner_calls(const Program& program);

}  // namespace weft
