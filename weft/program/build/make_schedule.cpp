#include "weft/program/build/make_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "weft/base/file_error.h"
#include "weft/base/units.h"
#include "weft/program/schedules/automatic.h"
#include "weft/program/schedules/csv.h"
#include "weft/program/schedules/gpipe.h"
#include "weft/program/schedules/interleaved.h"
#include "weft/program/schedules/naive.h"
#include "weft/program/schedules/one_f_one_b.h"
#include "weft/program/schedules/zb_h1.h"
#include "weft/program/schedules/zb_h2.h"
#include "weft/program/schedules/zb_v.h"

namespace weft {
namespace {

Schedule make_automatic(const PipelineShape& shape, PipelineCosts costs, int64_t* tasks_left) {
  const Schedule plain = one_stage_per_rank("auto", shape);
  if (costs.stages.empty()) {
    costs.stages.resize(plain.rank_of_stage.size());
    costs.max_activations = shape.ranks;
  }
  if (costs.num_ranks() != shape.ranks) {
    throw InputError(fmt::format("schedule auto: times of {} stages are given for {} ranks: give one entry per rank",
                                 costs.num_ranks(), shape.ranks));
  }
  return automatic_schedule(costs, shape.micro_batches,
                            {gpipe_schedule(shape), one_f_one_b_schedule(shape), zb_h1_schedule(shape), zb_h2_schedule(shape)},
                            tasks_left);
}

Schedule make_csv(const PipelineShape& shape, const ScheduleInputs& inputs) {
  Schedule schedule = csv_schedule(inputs.csv, inputs.csv_path);
  if (schedule.num_ranks() == shape.ranks && schedule.micro_batches == shape.micro_batches) return schedule;
  const std::string line =
      fmt::format("schedule csv: the text has {} and {}, the run {} and {}", counted(schedule.num_ranks(), "row"),
                  counted(schedule.micro_batches, "micro-batch", "es"), counted(shape.ranks, "rank"),
                  counted(shape.micro_batches, "micro-batch", "es"));
  if (inputs.csv_path.empty()) throw InputError(line);
  throw FileError(fmt::format("{}: {}", inputs.csv_path, line));
}

constexpr ScheduleKind kSchedules[] = {
    {.name = "naive", .make = naive_schedule},
    {.name = "gpipe", .make = gpipe_schedule},
    {.name = "1f1b", .make = one_f_one_b_schedule},
    {.name = "interleaved",
     .make = interleaved_schedule,
     .chunks = ScheduleKind::kChosen,
     .fills_ranks = true,
     .in_rounds = true},
    {.name = "zb-h1", .make = zb_h1_schedule, .splits_backward = true},
    {.name = "zb-h2", .make = zb_h2_schedule, .splits_backward = true},
    {.name = "zb-v", .make = zb_v_schedule, .chunks = 2, .splits_backward = true},
    {.name = "auto", .splits_backward = true, .fills_ranks = true},
    {.name = "csv"},
};

const ScheduleKind& named(std::string_view name) {
  for (const ScheduleKind& schedule : kSchedules) {
    if (schedule.name == name) return schedule;
  }
  throw InputError(fmt::format("schedule '{}' is not known: use one of {}", name, fmt::join(schedule_names(), ", ")));
}

int chunks_of(const ScheduleKind& schedule, const PipelineShape& shape) {
  return schedule.chunks == ScheduleKind::kChosen ? shape.chunks : schedule.chunks;
}

}  // namespace

std::span<const ScheduleKind> schedule_kinds() { return kSchedules; }

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleKind& schedule : kSchedules) names.emplace_back(schedule.name);
  return names;
}

ScheduleSize schedule_size(std::string_view name, const PipelineShape& shape) {
  const ScheduleKind& schedule = named(name);
  return {.stages = int64_t{shape.ranks} * chunks_of(schedule, shape),
          .splits_backward = schedule.splits_backward,
          .fewest_micro_batches = schedule.fills_ranks ? shape.ranks : 1,
          .unit = schedule.in_rounds ? shape.ranks : 1};
}

void check_fills_ranks(std::string_view name, const PipelineShape& shape) {
  if (shape.micro_batches >= shape.ranks || !named(name).fills_ranks) return;
  throw InputError(fmt::format("schedule {}: {} on {}: needs at least as many micro-batches as ranks ({} or more)", name,
                               counted(shape.micro_batches, "micro-batch", "es"), counted(shape.ranks, "rank"), shape.ranks));
}

Schedule make_schedule(std::string_view name, PipelineShape shape, const ScheduleInputs& inputs) {
  const ScheduleKind& schedule = named(name);
  if (name == "csv") return make_csv(shape, inputs);
  shape.chunks = chunks_of(schedule, shape);
  check_fills_ranks(name, shape);
  return name == "auto" ? make_automatic(shape, inputs.costs, inputs.tasks_left) : schedule.make(shape);
}

}  // namespace weft
