#include "weft/program/schedules/one_f_one_b.h"

namespace weft {

Schedule one_f_one_b_schedule(const PipelineShape& shape) {
  Schedule schedule = one_stage_per_rank("1f1b", shape);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Task>& tasks = schedule.tasks[rank];
    const int ahead = shape.ranks - 1 - rank;
    for (int micro = 0; micro < shape.micro_batches + ahead; ++micro) {
      if (micro < shape.micro_batches) tasks.push_back({TaskKind::forward, rank, micro});
      if (micro >= ahead) tasks.push_back({TaskKind::backward, rank, micro - ahead});
    }
  }
  return schedule;
}

}  // namespace weft
