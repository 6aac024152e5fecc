// StepTimeline: when ranks ran the instructions of one measured step, as the file profile/timeline.json of a run's folder: what
// weft report draws below the predicted step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/program/profile/measured_step.h"
#include "weft/program/timed.h"

namespace weft {

/// A step of a profile.
struct StepTimeline {
  uint64_t program = 0;                      ///< its fingerprint (program/fingerprint.h)
  int64_t step = 0;                          ///< counted from 1
  std::vector<int64_t> steps = {};           ///< all profiled ones, of which it has the median time
  std::vector<TimedInstruction> timed = {};  ///< ordered by rank; times count from the first rank's begin
};

/// The step of that number. Ranks: all of up to 64; of more, the first pipeline's, as the others run the same.
StepTimeline timeline_of(const Program& program, const std::vector<MeasuredStep>& steps, int64_t step);

/// The file's text: times in whole nanoseconds.
std::string timeline_json(const StepTimeline& timeline);
/// Reads it back. Throws InputError naming `path` for a text that is not such a file's.
StepTimeline parse_timeline(const std::string& text, const std::string& path);

/// Name of the file in the folder of a run.
inline constexpr const char* kTimelineFile = "profile/timeline.json";

}  // namespace weft
