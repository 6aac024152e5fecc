// make_schedule: a pipeline schedule by its name, as a recipe gives it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/program/pipeline_costs.h"
#include "weft/program/pipeline_shape.h"
#include "weft/program/schedule.h"

namespace weft {

struct ScheduleOptions {
  std::string name = "1f1b";  ///< one of schedule_names()
  PipelineShape shape = {};   ///< chunks 0: default_chunks(name)
  std::string csv = {};       ///< csv: the text (schedules/csv.h)
  PipelineCosts costs = {};   ///< auto: without stages, all times are 1
};

/// naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, auto, csv
const std::vector<std::string_view>& schedule_names();

/// 2 for those that hold several stages a rank (interleaved takes more too), 1 for the others.
int default_chunks(std::string_view name);

/// Throws InputError when the name is not known, when there are fewer micro-batches than ranks (but for naive and csv: some
/// rank would always wait), when the shape does not suit the schedule, and as csv_schedule() and automatic_schedule() do.
Schedule make_schedule(const ScheduleOptions& options);

}  // namespace weft
