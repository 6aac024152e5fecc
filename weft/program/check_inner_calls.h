// check_inner_calls: the part of check_program() that looks at what blocks and the loss call on other ranks while they run.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Checks the program's block_calls and loss_calls: told of every block or of none; each along axes of inner_axes(), where the
/// mesh has several ranks; bytes and rounds that can be counted, also all of one run of a block together. Throws VerifyError:
/// out_of_range, wrong_axis, bad_bytes. The mesh must be in range.
void check_inner_calls(const Program& program);

}  // namespace weft
