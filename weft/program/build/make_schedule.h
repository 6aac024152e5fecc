// make_schedule: makes a pipeline schedule by its recipe name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/program/build/step_size.h"
#include "weft/program/pipeline/costs.h"
#include "weft/program/pipeline/schedule.h"
#include "weft/program/pipeline/shape.h"

namespace weft {

/// Inputs, besides the shape, that some schedules need.
struct ScheduleInputs {
  PipelineCosts costs = {};       ///< for auto; without stages: all times are 1, and the memory limit is 1f1b's
  std::string csv = {};           ///< for csv: the text (schedules/csv.h)
  std::string csv_path = {};      ///< for csv: the text's file, named in errors; may be empty
  int64_t* tasks_left = nullptr;  ///< for auto: as in automatic_schedule()
};

/// Properties of a named schedule, before it is made.
struct ScheduleKind {
  /// Value of `chunks`: taken from PipelineShape.
  static constexpr int kChosen = 0;

  std::string_view name;                             ///< name in recipes
  Schedule (*make)(const PipelineShape&) = nullptr;  ///< null if it needs more than a shape (auto, csv)
  int chunks = 1;                                    ///< stages per rank; kChosen: from the shape, 2 or more
  bool splits_backward = false;                      ///< into input and weight parts
  bool fills_ranks = false;                          ///< needs at least one micro-batch per rank
  bool in_rounds = false;                            ///< needs a multiple of the ranks as micro-batches
};

/// Returns all schedules of make_schedule(): naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, auto, csv.
std::span<const ScheduleKind> schedule_kinds();
/// Their names.
std::vector<std::string> schedule_names();

/// Returns the size of a named schedule before it is made: for auto, of the schedule it searches for, with one stage per rank;
/// for csv, the smallest that a text can have.
ScheduleSize schedule_size(std::string_view name, const PipelineShape& shape);

/// Throws InputError for fewer micro-batches than ranks in a schedule that is made for at least as many: interleaved and auto.
/// In the others some rank then always waits.
void check_fills_ranks(std::string_view name, const PipelineShape& shape);

/// Returns the schedule of that name. Only interleaved uses PipelineShape::chunks: the others have 1 stage per rank, zb-v 2,
/// csv as in the text. Throws InputError if the name is not known, as check_fills_ranks() does, if the shape does not suit the
/// schedule, and as csv_schedule() and automatic_schedule() do.
Schedule make_schedule(std::string_view name, PipelineShape shape, const ScheduleInputs& inputs = {});

}  // namespace weft
