// TimedInstruction: an instruction and when it ran, simulated or measured. Input of drawings and traces.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// When a rank ran an instruction.
struct TimedInstruction {
  int rank = 0;          ///< world rank
  int index = 0;         ///< index in the rank's list
  double start_s = 0.0;  ///< when it began, or its bytes began to move, from a common origin for all ranks
  double end_s = 0.0;    ///< when it ended, from the same origin
  int alike = 1;         ///< ranks that behave identically; `rank` is the first
};

/// Throws VerifyError for a rank or an instruction that the program does not have, and InputError for non-finite times.
void check_timed(const Program& program, const std::vector<TimedInstruction>& timed);

/// Latest end of any instruction.
double end_of(const std::vector<TimedInstruction>& timed);

/// A stretch of time.
struct Interval {
  double start_s = 0.0;  ///< its begin
  double end_s = 0.0;    ///< its end
};

/// Returns a row per interval, in the order of `intervals`: the lowest, from 0, in which it overlaps no interval that starts
/// earlier (or equally early and comes before it).
std::vector<int> stack(const std::vector<Interval>& intervals);

}  // namespace weft
