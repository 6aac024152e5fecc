// Tally: what a rank's spans add up to: work, waiting, memory.
#pragma once

#include "weft/program/simulate/simulation.h"
#include "weft/program/simulate/work_time.h"

namespace weft {

/// Fills in everything of `rank` that follows from its spans, but for waiting_s, which needs the whole step. A gap of the
/// compute lane counts as exposed communication while bytes move that an instruction of the gap waits for; at the end, any
/// bytes.
void tally(const Program& program, const WorkTime& work, SimulatedRank& rank);

/// The most activation bytes at a time: an instruction's allocations count from its start, what it frees goes at its end.
int64_t peak_activation_bytes(const InstructionList& list, const std::vector<Span>& spans);

}  // namespace weft
