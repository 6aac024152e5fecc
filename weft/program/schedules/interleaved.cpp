#include "weft/program/schedules/interleaved.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/units.h"

namespace weft {
namespace {

constexpr std::string_view kInterleaved = "interleaved";

void check(const PipelineShape& shape) {
  check_positive(kInterleaved, shape);
  if (shape.chunks < 2) {
    throw InputError(
        fmt::format("schedule {}: {} chunk per rank, needs at least 2: give more, or use 1f1b", kInterleaved, shape.chunks));
  }
  if (shape.micro_batches % shape.ranks == 0) return;
  const int below = shape.micro_batches / shape.ranks * shape.ranks;
  throw InputError(fmt::format("schedule {}: {} on {}: needs a multiple of the ranks ({}{})", kInterleaved,
                               counted(shape.micro_batches, "micro-batch", "es"), counted(shape.ranks, "rank"),
                               below > 0 ? fmt::format("{} or ", below) : "", below + shape.ranks));
}

/// The k-th forward (or backward) of a rank. Every p v of them take p micro-batches through all v chunks: forwards from the
/// first chunk, backwards from the last.
Task nth(const PipelineShape& shape, TaskKind kind, int rank, int k) {
  const int round = shape.ranks * shape.chunks;
  const int step = k % round / shape.ranks;
  const int chunk = kind == TaskKind::forward ? step : shape.chunks - 1 - step;
  return {kind, chunk * shape.ranks + rank, k / round * shape.ranks + k % shape.ranks};
}

}  // namespace

Schedule interleaved_schedule(const PipelineShape& shape) {
  check(shape);
  Schedule schedule{.name = std::string(kInterleaved), .micro_batches = shape.micro_batches, .rank_of_stage = {}, .tasks = {}};
  for (int stage = 0; stage < shape.ranks * shape.chunks; ++stage) schedule.rank_of_stage.push_back(stage % shape.ranks);
  schedule.tasks.resize(shape.ranks);
  const int total = shape.micro_batches * shape.chunks;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int ahead = std::min(2 * (shape.ranks - 1 - rank) + (shape.chunks - 1) * shape.ranks, total);
    for (int k = 0; k < total + ahead; ++k) {
      if (k < total) schedule.tasks[rank].push_back(nth(shape, TaskKind::forward, rank, k));
      if (k >= ahead) schedule.tasks[rank].push_back(nth(shape, TaskKind::backward, rank, k - ahead));
    }
  }
  return schedule;
}

}  // namespace weft
