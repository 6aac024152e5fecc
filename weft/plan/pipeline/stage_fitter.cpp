#include "weft/plan/pipeline/stage_fitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "weft/base/units.h"
#include "weft/plan/cost/rank_memory.h"
#include "weft/plan/pipeline/partition_stages.h"
#include "weft/program/build/balance.h"
#include "weft/program/build/build.h"

namespace weft {

namespace {

constexpr int64_t kMostForwardsOfCuts = 2'000'000;  // in all programs built to find a cut that fits

}  // namespace

Found<std::vector<int>> StageFitter::cut(int stages) const {
  return choose_cut({.choice = recipe_.layout.stages, .stages = stages, .seconds = block_seconds(work_)});
}

Found<Plan> StageFitter::built(const Schedule& schedule, std::vector<int> first_block) const {
  Plan plan = base_;
  plan.layout.options.pipeline.given = schedule;
  plan.layout.options.pipeline.first_block = std::move(first_block);
  Found<Program> program = find_program(plan.cost, step_layout(plan.layout.options, plan.layout));
  if (!program) return {.why_not = std::move(program.why_not)};
  plan.program = std::make_shared<const Program>(std::move(program).take());
  return {.value = std::move(plan)};
}

Found<Plan> StageFitter::fitted(const Schedule& schedule) const {
  Found<std::vector<int>> first_cut = cut(schedule.num_stages());
  if (!first_cut) return {.why_not = std::move(first_cut.why_not)};
  Found<Plan> first = built(schedule, *first_cut);
  if (!first || recipe_.layout.stage_gb == 0.0) return first;
  Plan plan = std::move(first).take();
  const int64_t limit = std::max<int64_t>(1, static_cast<int64_t>(recipe_.layout.stage_gb * (1 << 30)));
  const StageBytes bytes(schedule, work_, state_bytes(plan));
  std::set<std::vector<int>> tried;
  std::pair<int64_t, int> least = {std::numeric_limits<int64_t>::max(), 0};  // bytes, and the rank that holds them
  std::vector<int> least_cut;
  for (;;) {
    const std::vector<int>& first_block = plan.layout.options.pipeline.first_block;
    const std::vector<MemoryEstimate> by_stage_rank = memory_by_stage_rank(recipe_, plan);
    const int fullest = fullest_stage_rank(by_stage_rank);
    const int64_t most = by_stage_rank[fullest].total();
    if (most <= limit) return {.value = std::move(plan)};
    if (most < least.first) least_cut = first_block;
    least = std::min(least, {most, fullest});
    tried.insert(first_block);
    std::optional<std::vector<int>> next = smaller_cut(plan, bytes, by_stage_rank, limit);
    if (!next || tried.count(*next) != 0) next = smaller_cut(plan, bytes, by_stage_rank, most - 1);
    const auto built_forwards = static_cast<int64_t>(tried.size()) * forwards();
    if (!next || tried.count(*next) != 0 || built_forwards > kMostForwardsOfCuts) break;
    Found<Plan> other = built(schedule, *next);
    if (!other) break;
    plan = std::move(other).take();
  }
  if (const std::optional<std::vector<int>> found = cut_of_all_stages(schedule, least_cut, limit)) {
    return built(schedule, *found);
  }
  return {.value = {},
          .why_not = fmt::format(
              "layout.stage_gb = {:g} allows {} per rank, but with schedule {} and the best cut found into {} stages, "
              "pipeline rank {} holds {}; use more pipeline ranks, recompute or shards",
              recipe_.layout.stage_gb, format_bytes(limit), schedule.name, schedule.num_stages(), least.second,
              format_bytes(least.first))};
}

/// Returns the fastest cut whose ranks should hold at most `limit`, assuming that only the bytes of each stage's blocks change:
/// the rest of a rank's memory is taken from this plan's estimate. Empty if there is no such cut.
std::optional<std::vector<int>> StageFitter::smaller_cut(const Plan& plan, const StageBytes& bytes,
                                                         const std::vector<MemoryEstimate>& by_stage_rank,
                                                         int64_t limit) const {
  if (recipe_.layout.stages != "auto") return {};
  const PipelineOptions& pipeline = plan.layout.options.pipeline;
  const int stages = pipeline.given.num_stages();
  std::vector<int64_t> beside;
  for (int stage = 0; stage < stages; ++stage) {
    const int64_t rank_bytes = by_stage_rank[pipeline.given.rank_of_stage[stage]].total();
    beside.push_back(rank_bytes - bytes.of(pipeline.first_block, stage));
  }
  return balance_stages({.stages = stages,
                         .seconds = block_seconds(work_),
                         .max_bytes = limit,
                         .bytes = [&bytes](int block, int stage) { return bytes.of(block, stage); },
                         .fixed_bytes = std::move(beside)})
      .value;
}

/// Needed because smaller_cut() takes the rest of a rank's memory as fixed and gives each stage what the rank's other stages
/// leave, while another cut may reduce both.
std::optional<std::vector<int>> StageFitter::cut_of_all_stages(const Schedule& schedule, const std::vector<int>& near,
                                                               int64_t limit) const {
  if (recipe_.layout.stages != "auto") return {};
  const int stages = schedule.num_stages();
  const auto rank_bytes = [&](const std::vector<int>& first_block) {
    std::vector<int64_t> bytes;
    const Found<Plan> plan = built(schedule, first_block);
    if (!plan) return std::vector<int64_t>(schedule.num_ranks(), limit + 1);  // this cut does not fit
    for (const MemoryEstimate& rank : memory_by_stage_rank(recipe_, *plan)) bytes.push_back(rank.total());
    return bytes;
  };
  const FitOptions options = {.seconds = block_seconds(work_),
                              .rank_of_stage = schedule.rank_of_stage,
                              .max_bytes = limit,
                              .most_tries = most_tries(int64_t{schedule.micro_batches} * stages),
                              .rank_bytes = rank_bytes};
  std::optional<std::vector<int>> found = fit_cut(options, near);
  if (!found) found = fit_cut(options, even_stages(static_cast<int>(work_.size()), stages));
  return found;
}

int StageFitter::most_tries(int64_t forwards_of_stages) const {
  if (forwards() > kMostForwards) return static_cast<int>(std::clamp<int64_t>(4 * kMostForwards / forwards(), 1, 4));
  return static_cast<int>(std::clamp<int64_t>(kMostForwards / forwards_of_stages, 16, 300));
}

/// State bytes of each block, from the bytes per element over the whole pipeline.
std::vector<int64_t> StageFitter::state_bytes(const Plan& plan) const {
  double bytes = 0.0, elements = 0.0;
  for (const MemoryEstimate& estimate : memory_by_stage_rank(recipe_, plan))
    bytes += static_cast<double>(estimate.model_states);
  for (const int64_t numel : plan.program->block_numel) elements += static_cast<double>(numel);
  std::vector<int64_t> result;
  for (const int64_t numel : plan.program->block_numel) {
    result.push_back(elements > 0.0 ? static_cast<int64_t>(bytes / elements * static_cast<double>(numel)) : 0);
  }
  return result;
}

}  // namespace weft
