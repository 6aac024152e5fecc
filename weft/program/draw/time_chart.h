// time_chart: timed instructions as text: a row per rank, time to the right in slots as long as the shortest kind of task.
//
//      pp 0 | F0 F1 F2       B0 -- F3 B1 -- ...
//      pp 1 |    F0 F1    B0 -- ...
//
// F, B: forward and backward of a micro-batch; I and W: backward for the input and for the weights; R: recompute, unless joined
// with its backward; U: loss or update; - continues a task; blank is idle. All blocks of a stage are one task. If a rank has
// several stages, a letter from a on names the stage. A long chart shows its beginning and its end.
#pragma once

#include <string>
#include <vector>

#include "weft/program/timed.h"

namespace weft {

/// Size of a chart.
struct TimeChartOptions {
  int width = 100;    ///< columns
  int max_rows = 32;  ///< most rows shown
};

/// Returns the chart as lines, each ended by a newline; empty if nothing takes time. Time and memory grow with the instructions
/// and the width, not with the time slots.
std::string time_chart(const Program& program, const std::vector<TimedInstruction>& timed,
                       const TimeChartOptions& options = {});

/// Returns the legend of `chart`: the meaning of its letters, one per line, and how many ranks a row represents; then an empty
/// line. `chart` must be the chart of `timed`; its text outside labels is lower-case.
std::string chart_legend(const std::vector<TimedInstruction>& timed, const std::string& chart);

}  // namespace weft
