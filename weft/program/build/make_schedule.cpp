#include "weft/program/build/make_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "weft/base/file_error.h"
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

void check_fills_ranks(std::string_view name, const PipelineShape& shape) {
  if (shape.micro_batches >= shape.ranks) return;
  throw InputError(
      fmt::format("schedule {}: {} micro-batches on {} ranks: needs at least as many micro-batches as ranks ({} or more)", name,
                  shape.micro_batches, shape.ranks, shape.ranks));
}

Schedule make_automatic(const PipelineShape& shape, PipelineCosts costs, int64_t* tasks_left) {
  const Schedule plain = one_stage_a_rank("auto", shape);
  if (costs.stages.empty()) {
    costs.stages.resize(plain.rank_of_stage.size());
    costs.max_activations = shape.ranks;
  }
  if (costs.num_ranks() != shape.ranks) {
    throw InputError(fmt::format("schedule auto: times of {} stages are given for {} ranks: give one entry a rank",
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
      fmt::format("schedule csv: the text has {} rows and {} micro-batches, the run {} ranks and {} micro-batches",
                  schedule.num_ranks(), schedule.micro_batches, shape.ranks, shape.micro_batches);
  if (inputs.csv_path.empty()) throw InputError(line);
  throw FileError(fmt::format("{}: {}", inputs.csv_path, line));
}

struct Named {
  std::string_view name;
  Schedule (*make)(const PipelineShape&);
};

constexpr Named kPipelined[] = {
    {"gpipe", gpipe_schedule}, {"1f1b", one_f_one_b_schedule}, {"interleaved", interleaved_schedule},
    {"zb-h1", zb_h1_schedule}, {"zb-h2", zb_h2_schedule},      {"zb-v", zb_v_schedule},
};

}  // namespace

std::vector<std::string> schedule_names() {
  return {"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "auto", "csv"};
}

ScheduleSize schedule_size(std::string_view name, const PipelineShape& shape) {
  const int64_t chunks = name == "interleaved" ? shape.chunks : name == "zb-v" ? 2 : 1;
  const bool any_number = name == "naive" || name == "csv";
  return {.stages = shape.ranks * chunks,
          .splits_backward = name == "auto" || name.starts_with("zb-"),
          .fewest_micro_batches = any_number ? 1 : shape.ranks,
          .unit = name == "interleaved" ? shape.ranks : 1};
}

Schedule make_schedule(std::string_view name, PipelineShape shape, const ScheduleInputs& inputs) {
  if (name == "csv") return make_csv(shape, inputs);
  if (name != "interleaved") shape.chunks = name == "zb-v" ? 2 : 1;
  if (name == "naive") return naive_schedule(shape);
  if (name == "auto") {
    check_fills_ranks(name, shape);
    return make_automatic(shape, inputs.costs, inputs.tasks_left);
  }
  for (const Named& one : kPipelined) {
    if (one.name != name) continue;
    check_fills_ranks(name, shape);
    return one.make(shape);
  }
  throw InputError(fmt::format("schedule '{}' is not known: use one of {}", name, fmt::join(schedule_names(), ", ")));
}

}  // namespace weft
