// Schedule "csv": a custom schedule, as text.
//
// One row per rank, cells separated by commas, in order of execution. A cell is a letter, the stage, a dot and the micro-batch,
// all counted from 0: F forward, B whole backward, I backward_input, W backward_weight. F0.3 is the forward of stage 0 on
// micro-batch 3. Empty cells are idle and blank cells may align columns; blank lines and lines starting with # are skipped.
//
//      # two ranks, two micro-batches
//      F0.0, F0.1,     , B0.0,     , B0.1
//          , F1.0, B1.0, F1.1, B1.1
//
// Idle cells do not affect times: a task starts when its rank is free and its input has arrived. A stage is on the rank whose
// row names it; the highest numbers set the number of stages and micro-batches. Memory and bubble: computed by task_times.h.
#pragma once

#include <string>
#include <string_view>

#include "weft/program/pipeline/schedule.h"

namespace weft {

/// Parses a schedule. Throws InputError naming row and cell if it cannot be read, and as check_schedule() does; FileError,
/// prefixed with the path, if a path is given.
Schedule csv_schedule(std::string_view text, std::string_view path = {});

/// Returns text for csv_schedule(), laid out as a timeline: a column is the time of a forward, or of a part of a backward, if
/// these were equal and transfers free.
std::string to_csv(const Schedule& schedule);

/// Returns the shortest text for csv_schedule(), without idle cells.
std::string csv_rows(const Schedule& schedule);

}  // namespace weft
