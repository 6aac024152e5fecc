// Schedule: one that the user wrote, as text.
//
// One row a rank, cells separated by commas, in order of execution. A cell is a letter, the stage, a dot and the micro-batch,
// all counted from 0: F forward, B whole backward, I backward_input, W backward_weight. F0.3 is the forward of stage 0 on
// micro-batch 3. Empty cells are idle and blank cells may line columns up; blank lines and lines that start with # are skipped.
//
//      # two ranks, two micro-batches
//      F0.0, F0.1,     , B0.0,     , B0.1
//          , F1.0, B1.0, F1.1, B1.1
//
// Idle cells say nothing about times: a task starts when its rank is free and its input is there.
// A stage lies on the rank whose row names it; stages and micro-batches are as many as the highest number says.
// Memory and bubble: whatever the user made of them (task_times.h tells).
#pragma once

#include <string>
#include <string_view>

#include "weft/program/pipeline/schedule.h"

namespace weft {

/// The schedule that a text tells. Throws InputError that names row and cell when it cannot be read, and as check_schedule()
/// does; FileError, with the path before that, where it is told which file the text is from.
Schedule csv_schedule(std::string_view text, std::string_view path = {});

/// The text that csv_schedule() reads as `schedule`, laid out as a timeline: a column is the time of a forward, or of a part of
/// a backward, were these equal and transfers free.
std::string to_csv(const Schedule& schedule);

/// The text that csv_schedule() reads as `schedule`, as short as may be: without idle cells.
std::string csv_rows(const Schedule& schedule);

}  // namespace weft
