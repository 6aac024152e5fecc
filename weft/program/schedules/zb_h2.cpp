#include "weft/program/schedules/zb_h2.h"

namespace weft {

Schedule zb_h2_schedule(const PipelineShape& shape) {
  Schedule schedule = one_stage_a_rank("zb-h2", shape);
  const int micro_batches = shape.micro_batches;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Task>& tasks = schedule.tasks[rank];
    const int ahead = 2 * (shape.ranks - 1 - rank);
    const int kept_back = 2 * rank;
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
