// draw: a program as text that a person reads.
//
// Plain ASCII, at most DrawOptions::width columns (names excepted). What repeats is said once: ranks that share a list,
// micro-batches that do the same, runs of like blocks, the middle of long rows. So the text stays about a page for any model,
// number of micro-batches and number of ranks.
#pragma once

#include <string>

#include "weft/program/draw/draw_options.h"
#include "weft/program/program.h"

namespace weft {

/// A program as a page of text. Without a pipeline it has a timeline for each distinct list, one lane a row, and the ranks that
/// run it; with one a chart over time, one list a row, and a table of the stages. Then come the legend, and bytes sent,
/// operations and memory of a step. Throws VerifyError as check_program() does.
std::string draw(const Program& program, const DrawOptions& options = {});

/// Every instruction of a rank, one a line: number, lane, what it does, what it waits for, what it costs. Throws InputError
/// for a rank that the program does not have.
std::string list(const Program& program, int rank);

}  // namespace weft
