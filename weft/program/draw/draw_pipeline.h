// The parts of draw() that show the ranks of a pipeline: its tasks over time, and a line for each rank.
#pragma once

#include <string>
#include <vector>

#include "weft/program/draw/draw_options.h"
#include "weft/program/program.h"

namespace weft {

/// The chart of time_chart.h with a heading, as if operations alone took time; or, where the program would never end, why.
std::string pipeline_chart(const Program& program, const DrawOptions& options);

/// What each pipeline rank holds, sends and keeps: a heading, then a row a rank.
std::vector<std::string> pipeline_rows(const Program& program);

}  // namespace weft
