// The part of check_program() that looks at each instruction of a list.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// Blocks of a program that has this many: one or more for what works on blocks, none or more for the rest.
bool has_blocks(const Instruction& instruction, int num_blocks);

/// Of the list's instructions. `rank` is the first that runs it, -1 where none does. Throws VerifyError.
void check_instructions(const Program& program, int list, int rank);

}  // namespace weft
