// verify: finds defects of a program, over all ranks, before anything runs.
//
// It trusts only the lists: an instruction comes before another only if the lanes and `waits` guarantee it (instruction.h), so
// a missing wait is found even if the list happens to be in a good order.
#pragma once

#include "weft/program/defect.h"
#include "weft/program/program.h"

namespace weft {

/// Throws VerifyError for the first defect; its text names rank, instruction, block and micro-batch. Ranks that share a list
/// are checked once: the cost grows with the number of distinct lists.
void verify(const Program& program);

}  // namespace weft
