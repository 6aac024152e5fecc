#include "weft/plan/pipeline/stage_bytes.h"

#include <algorithm>
#include <utility>

#include "weft/program/build/stages.h"

namespace weft {

namespace {

/// Micro-batches between a stage's forward and the end of its backward.
std::vector<int> most_in_flight(const Schedule& schedule) {
  std::vector<int> most(schedule.num_stages(), 0), now(schedule.num_stages(), 0);
  for (const std::vector<Task>& tasks : schedule.tasks) {
    for (const Task& task : tasks) {
      if (task.kind == TaskKind::forward) most[task.stage] = std::max(most[task.stage], ++now[task.stage]);
      if (task.kind == TaskKind::backward || task.kind == TaskKind::backward_weight) --now[task.stage];
    }
  }
  return most;
}

}  // namespace

StageBytes::StageBytes(const Schedule& schedule, const std::vector<BlockWork>& work, std::vector<int64_t> state_bytes)
    : work_(work), state_bytes_(std::move(state_bytes)), in_flight_(most_in_flight(schedule)) {}

int64_t StageBytes::of(int block, int stage) const { return state_bytes_[block] + work_[block].kept_bytes * in_flight_[stage]; }

int64_t StageBytes::of(const std::vector<int>& first_block, int stage) const {
  const auto [first, last] = stages_of(first_block, static_cast<int>(work_.size()))[stage];
  int64_t bytes = 0;
  for (int block = first; block < last; ++block) bytes += of(block, stage);
  return bytes;
}

}  // namespace weft
