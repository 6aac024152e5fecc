// Tally: totals of a rank's spans: work, waiting, memory.
#pragma once

#include "weft/program/simulate/simulation.h"
#include "weft/program/simulate/work_time.h"

namespace weft {

/// Fills in everything of `rank` that follows from its spans, except waiting_s, which needs the whole step. A gap of the
/// compute lane counts as exposed communication while bytes move that an instruction in the gap waits for; at the end of the
/// step, while any bytes move.
void tally(const Program& program, const WorkTime& work, SimulatedRank& rank);

/// Peak activation bytes: an instruction allocates at its start and frees at its end.
int64_t peak_activation_bytes(const InstructionList& list, const std::vector<Span>& spans);

}  // namespace weft
