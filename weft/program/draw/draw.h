// draw: a program as readable text.
//
// Plain ASCII, at most DrawOptions::width columns (except long names). Repetition is folded: ranks that share a list, identical
// micro-batches, runs of identical blocks, the middle of long rows. So the text is about a page for any model, number of
// micro-batches and number of ranks.
#pragma once

#include <string>

#include "weft/program/draw/draw_options.h"
#include "weft/program/program.h"

namespace weft {

/// Draws a program as a page of text. Without a pipeline it has a timeline per distinct list, one row per lane, and the ranks
/// that run it; with a pipeline, a chart over time, one row per list, and a table of the stages. Then come the legend, and
/// bytes sent, operations and memory of a step. Throws VerifyError as check_program() does.
std::string draw(const Program& program, const DrawOptions& options = {});

/// Lists every instruction of a rank, one per line: number, lane, action, waits, cost. Throws InputError for a rank that the
/// program does not have.
std::string list(const Program& program, int rank);

}  // namespace weft
