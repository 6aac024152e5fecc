// make_schedule: a pipeline schedule by its name, as a recipe gives it.
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

/// The inputs that some schedules take beside their shape.
struct ScheduleInputs {
  PipelineCosts costs = {};       ///< auto; without stages: all times are 1, and a rank holds what it does with 1f1b
  std::string csv = {};           ///< csv: the text (schedules/csv.h)
  std::string csv_path = {};      ///< csv: the file it is from, for errors; empty: none
  int64_t* tasks_left = nullptr;  ///< auto: as in automatic_schedule()
};

/// What is known of a schedule by its name, before it is made.
struct ScheduleKind {
  /// Chunks that are PipelineShape's to say.
  static constexpr int kChosen = 0;

  std::string_view name;                             ///< as recipes give it
  Schedule (*make)(const PipelineShape&) = nullptr;  ///< null for one that is made of more than its shape (auto, csv)
  int chunks = 1;                                    ///< stages a rank; kChosen: as many as the shape says, 2 or more
  bool splits_backward = false;                      ///< into the part for the input and that for the weights
  bool fills_ranks = true;                           ///< needs a micro-batch for every rank
  bool in_rounds = false;                            ///< needs a multiple of as many
};

/// All that make_schedule() knows: naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, auto, csv.
std::span<const ScheduleKind> schedule_kinds();
/// Their names.
std::vector<std::string> schedule_names();

/// The size of a schedule by its name, before it is made: for auto that of the order it searches for, which has one stage a
/// rank; for csv the least that a text can have.
ScheduleSize schedule_size(std::string_view name, const PipelineShape& shape);

/// Throws InputError where there are fewer micro-batches than ranks, for a schedule in which some rank would then always wait:
/// all but naive and csv.
void check_fills_ranks(std::string_view name, const PipelineShape& shape);

/// The schedule of that name. PipelineShape::chunks is interleaved's: the others have 1 stage a rank, zb-v 2, csv what the text
/// says. Throws InputError when the name is not known, as check_fills_ranks() does, when the shape does not suit the schedule,
/// and as csv_schedule() and automatic_schedule() do.
Schedule make_schedule(std::string_view name, PipelineShape shape, const ScheduleInputs& inputs = {});

}  // namespace weft
