#include "weft/program/pipeline/shape.h"

#include <fmt/format.h>

#include <numeric>

#include "weft/base/error.h"

namespace weft {

void check_positive(std::string_view name, const PipelineShape& shape) {
  if (shape.ranks >= 1 && shape.chunks >= 1 && shape.micro_batches >= 1) return;
  throw InputError(fmt::format("schedule {}: {} ranks, {} chunks per rank and {} micro-batches: each must be at least 1", name,
                               shape.ranks, shape.chunks, shape.micro_batches));
}

Schedule one_stage_per_rank(std::string_view name, const PipelineShape& shape) {
  check_positive(name, shape);
  if (shape.chunks != 1) {
    throw InputError(
        fmt::format("schedule {}: {} chunks per rank, must be 1: use interleaved or zb-v for more", name, shape.chunks));
  }
  Schedule schedule{.name = std::string(name), .micro_batches = shape.micro_batches, .rank_of_stage = {}, .tasks = {}};
  schedule.rank_of_stage.resize(shape.ranks);
  std::iota(schedule.rank_of_stage.begin(), schedule.rank_of_stage.end(), 0);
  schedule.tasks.resize(shape.ranks);
  return schedule;
}

}  // namespace weft
