// The part of check_program() for each instruction of a list.
#pragma once

#include "weft/program/program.h"

namespace weft {

/// True if the instruction's blocks exist in a program of `num_blocks`: at least one for instructions on blocks, any number for
/// the rest.
bool has_blocks(const Instruction& instruction, int num_blocks);

/// Checks the list's instructions. `rank` is the first rank that runs the list; -1: no rank runs it. Throws VerifyError.
void check_instructions(const Program& program, int list, int rank);

}  // namespace weft
