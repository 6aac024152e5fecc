// trace: timed instructions in the format of Chrome (chrome://tracing) and Perfetto (ui.perfetto.dev).
//
// A JSON array of trace events (Trace Event Format): one process per rank, one thread per lane; if a rank represents others,
// its name says how many. Overlapping instructions of a lane get separate threads, since a thread's events must nest.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/program/timed.h"

namespace weft {

/// Receives the next part of a text.
using TraceSink = std::function<void(std::string_view)>;

/// A further slice of a trace.
struct TraceSlice {
  int rank = 0;           ///< of the compute lane of this rank, within its instructions; kCriticalPath: in a track of its own
  std::string name = {};  ///< what is shown
  std::string category = {};  ///< what viewers filter by
  double start_s = 0.0;       ///< from the origin of the instructions' times
  double end_s = 0.0;         ///< the same
  int track = 0;              ///< of the critical path: slices of one track do not overlap
};
inline constexpr int kCriticalPath = -1;  ///< TraceSlice::rank

/// Writes the trace, times to the nanosecond, without zero-length instructions. The text goes to `out` in parts of about a
/// megabyte, since a trace of many ranks is long. In block names, U+FFFD replaces invalid UTF-8.
void write_trace(const Program& program, const std::vector<TimedInstruction>& timed, const TraceSink& out,
                 const std::vector<TraceSlice>& slices = {});

/// Returns the output of write_trace() as one text.
std::string trace_json(const Program& program, const std::vector<TimedInstruction>& timed);

}  // namespace weft
