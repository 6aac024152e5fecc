// check_program: checks that every index and size of a program is in range, so that its readers need no checks of their own.
//
// verify() runs it first, as does everything that takes a possibly hand-written program: simulate(), draw(), list(),
// estimate_memory(), stage_rank_of_block(), timed_instructions(), draw_svg(), time_chart(), trace_json() and the Engine.
// verify() checks whether the program makes sense. One pass over the lists, in negligible memory.
#pragma once

#include <vector>

#include "weft/program/defect.h"
#include "weft/program/program.h"

namespace weft {

/// Checks that everything in the program is in range. Throws VerifyError: out_of_range for a block, micro-batch, slot, peer,
/// list, buffer or count that the program does not have, and for vectors without an entry per block, list or rank; bad_wait;
/// bad_bytes if bytes are negative or their sum exceeds 64 bits; wrong_axis for a tied-weight collective without a block, and
/// for calls inside blocks along axes other than cp and tp; misplaced_block for a block without a buffer; missing_forward for
/// more micro-batches than instructions. Lists that no rank runs are checked too.
void check_program(const Program& program);

/// Checks the blocks of a list's instructions, their buffers, and the number of micro-batches, which is all that passes read of
/// a program with unfinished lists. Throws VerifyError.
void check_blocks(const InstructionList& list, const Program& program, const Buffers& buffers = {});

/// Returns the first rank of each list, -1 for unused lists.
std::vector<int> first_ranks(const Program& program);

/// Checks that a rank exists and that its list and buffers are in range. Throws VerifyError.
void check_rank(const Program& program, int rank);

}  // namespace weft
