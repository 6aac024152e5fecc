// check_program: that every index and size of a program is in range, so that whoever reads it need not look.
//
// verify() begins with it, and so does all else that takes a program which somebody may have written by hand: simulate(),
// draw(), list(), estimate_memory(), stage_rank_of_block(), timed_instructions(), draw_svg(), time_chart(), trace_json() and
// the Engine. Whether the program makes sense is verify()'s to tell. One pass over the lists, in no memory to speak of.
#pragma once

#include <vector>

#include "weft/program/defect.h"
#include "weft/program/program.h"

namespace weft {

/// Checks that all that the program tells is in range. Throws VerifyError: out_of_range for a block, micro-batch, slot, peer,
/// list, buffer or count that the program does not have, and for vectors that do not tell of every block, list or rank;
/// bad_wait; bad_bytes where bytes are negative, or add up to more than 64 bits hold; wrong_axis for a collective of tied
/// weights of no block, and for calls inside blocks along axes other than cp and tp; misplaced_block for one without a buffer;
/// missing_forward where there are more micro-batches than instructions. Lists that no rank runs are looked at too.
void check_program(const Program& program);

/// Checks that the blocks of a list's instructions, and their buffers, are told of, and micro-batches no more than can be: what
/// passes read of a program whose lists are not finished. Throws VerifyError.
void check_blocks(const InstructionList& list, const Program& program, const Buffers& buffers = {});

/// The first rank of each list, -1 for lists that nobody runs.
std::vector<int> first_ranks(const Program& program);

/// Checks one rank as check_program() does all: that it is there, and all that is told of it in range. Throws VerifyError.
void check_rank(const Program& program, int rank);

}  // namespace weft
