#include "weft/program/pipeline/split_pattern.h"

namespace weft {

Schedule split_schedule(std::string_view name, const PipelineShape& shape, const SplitPattern& pattern) {
  Schedule schedule = one_stage_per_rank(name, shape);
  const int micro_batches = shape.micro_batches;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Task>& tasks = schedule.tasks[rank];
    const int ahead = pattern.ahead(rank);
    const int kept_back = pattern.kept_back(rank);
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
