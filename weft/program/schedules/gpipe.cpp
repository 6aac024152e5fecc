#include "weft/program/schedules/gpipe.h"

namespace weft {

Schedule gpipe_schedule(const PipelineShape& shape) {
  Schedule schedule = one_stage_per_rank("gpipe", shape);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    for (const TaskKind kind : {TaskKind::forward, TaskKind::backward}) {
      for (int micro = 0; micro < shape.micro_batches; ++micro) schedule.tasks[rank].push_back({kind, rank, micro});
    }
  }
  return schedule;
}

}  // namespace weft
