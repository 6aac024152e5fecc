#include "weft/plan/search/schedule_facts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "weft/base/error.h"
#include "weft/program/build/make_schedule.h"

namespace weft {

namespace {

constexpr double kDeferredShare = 0.7;  ///< of its activations, for a transformer layer about; any will do

/// Fills in what a rank's stages have in flight.
void count_in_flight(int rank, ScheduleFacts& facts) {
  std::map<int, std::pair<int, int>> now, most;  // by stage
  double sum = 0.0, most_sum = 0.0;
  for (const Task& task : facts.schedule.tasks[rank]) {
    auto& [in_flight, deferred] = now[task.stage];
    if (task.kind == TaskKind::forward) ++in_flight;
    if (task.kind == TaskKind::backward || task.kind == TaskKind::backward_input) --in_flight;
    if (task.kind == TaskKind::backward_input) ++deferred;
    if (task.kind == TaskKind::backward_weight) --deferred;
    sum = 0.0;
    for (const auto& [stage, counts] : now) sum += counts.first + kDeferredShare * counts.second;
    if (sum <= most_sum) continue;
    most_sum = sum;
    most = now;
  }
  for (const auto& [stage, counts] : most) {
    facts.in_flight[stage] = counts.first;
    facts.deferred[stage] = counts.second;
  }
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
  facts.in_flight.resize(schedule.rank_of_stage.size());
  facts.deferred.resize(schedule.rank_of_stage.size());
  facts.splits = schedule_size(name, shape).splits_backward;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    count_in_flight(rank, facts);
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
