// TimedInstruction: an instruction and when it ran. What drawings and traces are made of, simulated or measured.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// When a rank ran an instruction.
struct TimedInstruction {
  int rank = 0;          ///< of the world
  int index = 0;         ///< in the rank's list
  double start_s = 0.0;  ///< when it began, or its bytes began to move, counted from one moment for all ranks
  double end_s = 0.0;    ///< when it ended, counted from the same moment
  int alike = 1;         ///< ranks that do the same at the same time; `rank` is the first of them
};

/// Throws VerifyError for a rank or an instruction that the program does not have, and InputError for times that are not
/// finite.
void check_timed(const Program& program, const std::vector<TimedInstruction>& timed);

/// The latest end.
double end_of(const std::vector<TimedInstruction>& timed);

/// A stretch of time.
struct Interval {
  double start_s = 0.0;  ///< its begin
  double end_s = 0.0;    ///< its end
};

/// A row for each interval, in the order of `intervals`: the lowest, from 0, in which it overlaps none that starts earlier (or
/// equally early and comes before it).
std::vector<int> stack(const std::vector<Interval>& intervals);

}  // namespace weft
