// The parts of draw() for the ranks of a pipeline: its tasks over time, and a line per rank.
#pragma once

#include <string>
#include <vector>

#include "weft/program/draw/draw_options.h"
#include "weft/program/program.h"

namespace weft {

/// Returns the chart of time_chart.h, timed as if only operations took time, with a heading; the reason if it would deadlock.
std::string pipeline_chart(const Program& program, const DrawOptions& options);

/// Returns the table of blocks, traffic and memory of each pipeline rank: a heading, then a row per rank.
std::vector<std::string> pipeline_rows(const Program& program);

}  // namespace weft
