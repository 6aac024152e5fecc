#include "weft/plan/search/schedule_facts.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/build/make_schedule.h"

namespace weft {

namespace {

std::vector<int> most_in_flight(const Schedule& schedule, int rank, ScheduleFacts& facts) {
  std::vector<int> now(schedule.rank_of_stage.size(), 0), most = now;
  int sum = 0, most_sum = 0;
  for (const Task& task : schedule.tasks[rank]) {
    facts.splits |= task.kind == TaskKind::backward_input;
    if (task.kind == TaskKind::backward_weight) continue;
    const int change = task.kind == TaskKind::forward ? 1 : -1;
    now[task.stage] += change;
    sum += change;
    if (sum <= most_sum) continue;
    most_sum = sum;
    most = now;
  }
  return most;
}

ScheduleFacts facts_of(const std::string& name, const PipelineShape& shape) {
  ScheduleFacts facts;
  try {
    facts.schedule = make_schedule(name, shape);
  } catch (const InputError& error) {
    facts.why_not = error.what();
    return facts;
  }
  const Schedule& schedule = facts.schedule;
  facts.first_stage.resize(schedule.tasks.size());
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    facts.in_flight.push_back(most_in_flight(schedule, rank, facts));
    const auto first = std::find(schedule.rank_of_stage.begin(), schedule.rank_of_stage.end(), rank);
    facts.first_stage[rank] = static_cast<int>(first - schedule.rank_of_stage.begin());
  }
  return facts;
}

}  // namespace

const ScheduleFacts& ScheduleTable::at(const std::string& name, int ranks, int chunks, int micro_batches) {
  const auto [found, is_new] = known_.try_emplace({name, ranks, chunks, micro_batches});
  if (is_new) found->second = facts_of(name, {.ranks = ranks, .chunks = std::max(chunks, 1), .micro_batches = micro_batches});
  return found->second;
}

}  // namespace weft
