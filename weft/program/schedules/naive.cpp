#include "weft/program/schedules/naive.h"

namespace weft {

Schedule naive_schedule(const PipelineShape& shape) {
  Schedule schedule = one_stage_per_rank("naive", shape);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    for (int micro = 0; micro < shape.micro_batches; ++micro) {
      schedule.tasks[rank].push_back({TaskKind::forward, rank, micro});
      schedule.tasks[rank].push_back({TaskKind::backward, rank, micro});
    }
  }
  return schedule;
}

}  // namespace weft
