#include "weft/program/schedules/zb_h1.h"

namespace weft {

Schedule zb_h1_schedule(const PipelineShape& shape) {
  Schedule schedule = one_stage_a_rank("zb-h1", shape);
  const int micro_batches = shape.micro_batches;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Task>& tasks = schedule.tasks[rank];
    const int ahead = shape.ranks - 1 - rank;
    const int kept_back = rank;
    for (int step = 0; step < micro_batches + ahead + kept_back; ++step) {
      const int input = step - ahead;
      const int weight = input - kept_back;
      if (step < micro_batches) tasks.push_back({TaskKind::forward, rank, step});
      if (input >= 0 && input < micro_batches) tasks.push_back({TaskKind::backward_input, rank, input});
      if (weight >= 0) tasks.push_back({TaskKind::backward_weight, rank, weight});
    }
  }
  return schedule;
}

}  // namespace weft
