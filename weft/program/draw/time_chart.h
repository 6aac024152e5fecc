// time_chart: timed instructions as text: a row for each rank of theirs, time to the right in slots of the shortest kind of
// task.
//
//      pp 0 | F0 F1 F2       B0 -- F3 B1 -- ...
//      pp 1 |    F0 F1    B0 -- ...
//
// F, B: forward and backward of a micro-batch; I and W: backward for the input and for the weights; R: forward again
// (recompute), where it does not run into its backward; U: loss or update; - goes on; blank is idle. All blocks of a stage are
// one task. Where a rank has several stages a letter tells which, from a. A long chart shows its beginning and its end.
#pragma once

#include <string>
#include <vector>

#include "weft/program/timed.h"

namespace weft {

/// How large a chart is.
struct TimeChartOptions {
  int width = 100;    ///< columns
  int max_rows = 32;  ///< shown at most
};

/// The chart as lines, each ended by a newline; empty where nothing takes time. Costs time and memory that grow with the
/// instructions and the width, not with the slots of time.
std::string time_chart(const Program& program, const std::vector<TimedInstruction>& timed,
                       const TimeChartOptions& options = {});

/// The legend of `chart`: what the letters that it has mean, a line each, and how many ranks a row stands for; then an empty
/// line. `chart` is made of `timed`, and its words other than labels are in small letters.
std::string chart_legend(const std::vector<TimedInstruction>& timed, const std::string& chart);

}  // namespace weft
