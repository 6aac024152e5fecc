// The part of check_program() that looks at each instruction of a list.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Whether the instruction's blocks are ones of a program of `num_blocks`: one or more for what works on blocks, none or more
/// for the rest.
bool has_blocks(const Instruction& instruction, int num_blocks);

/// Checks the list's instructions. `rank` is the first that runs it, -1 where none does. Throws VerifyError.
void check_instructions(const Program& program, int list, int rank);

}  // namespace weft
