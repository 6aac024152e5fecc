#include "weft/train/pipeline_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/input_file.h"
#include "weft/base/units.h"
#include "weft/program/balance.h"
#include "weft/program/build.h"
#include "weft/program/make_schedule.h"
#include "weft/program/network.h"
#include "weft/program/schedules/automatic.h"
#include "weft/program/simulate.h"
#include "weft/train/block_work.h"
#include "weft/train/cut.h"
#include "weft/train/hardware_file.h"
#include "weft/train/memory.h"
#include "weft/train/stage_bytes.h"
#include "weft/train/stages_text.h"

namespace weft {

namespace {

constexpr double kBetter = 1.0 - 1e-9;  ///< a smaller gain is rounding

// Forwards of blocks in all programs that are built while one is planned: each takes some 5 microseconds.
constexpr int64_t kMostForwards = 50'000;           ///< to move blocks one at a time; in one that is built many times
constexpr int64_t kMostForwardsOfCuts = 2'000'000;  ///< to find a cut that fits
constexpr int64_t kMostForwardsToSearch = 300'000;  ///< in one whose schedule is searched

Hardware hardware_of(const Recipe& recipe, const ResolvedLayout& layout) {
  if (recipe.layout.profile.empty()) return counted_operations();
  Hardware hardware = load_hardware(recipe.layout.profile);
  in_hardware_file(recipe.layout.profile, [&] { check_micro_batch(hardware, layout.micro_batch); });
  return hardware;
}

std::vector<BlockWork> work_of(const Recipe& recipe, const Plan& base, const Hardware& hardware) {
  std::vector<BlockWork> work;
  in_hardware_file(recipe.layout.profile,
                   [&] { work = block_work(base.cost, base.layout.options, base.layout.counts, hardware); });
  return work;
}

/// Of an automatic schedule's candidate. Where messages are free many are equally short: then the second counts.
struct StepTime {
  double as_told_s = 0.0;
  double with_messages_s = 0.0;
};

bool is_shorter(const StepTime& a, const StepTime& b) {
  if (a.as_told_s < b.as_told_s * kBetter) return true;
  return a.as_told_s * kBetter <= b.as_told_s && a.with_messages_s < b.with_messages_s * kBetter;
}

class Planner {
 public:
  Planner(const Recipe& recipe, const Plan& base)
      : recipe_(recipe), base_(base), hardware_(hardware_of(recipe, base.layout)), work_(work_of(recipe, base, hardware_)) {}

  Plan run() {
    const std::string& name = recipe_.layout.schedule;
    if (name == "auto") check_searchable();
    check_size(base_.cost, base_.layout.options, base_.layout.counts);
    const std::string csv = name == "csv" ? read_schedule(recipe_.layout) : "";
    Plan plan = name == "auto" ? automatic()
                               : fitted(make_schedule(name, shape(), {.csv = csv, .csv_path = recipe_.layout.schedule_file}));
    plan.stages_text = stages_text(recipe_.layout, plan, block_seconds(work_), searched_);
    const std::string untimed = untimed_blocks_text(hardware_, plan.program.block_names);
    if (!untimed.empty()) plan.stages_text += fmt::format("  {}\n", untimed);
    return plan;
  }

 private:
  PipelineShape shape() const {
    const int chunks = base_.layout.options.pipeline.chunks;
    return {.ranks = base_.layout.pp, .chunks = chunks, .micro_batches = base_.layout.micro_batches_per_rank};
  }

  /// Of all blocks, in a step.
  int64_t forwards() const { return static_cast<int64_t>(work_.size()) * base_.layout.micro_batches_per_rank; }

  void check_searchable() const {
    const bool limited = recipe_.layout.stage_gb > 0.0;
    const int64_t most = limited ? kMostForwards : kMostForwardsToSearch;
    const auto blocks = static_cast<int64_t>(work_.size());
    if (forwards() <= most || base_.layout.pp > blocks) return;  // what cannot be cut is refused as such
    const ScheduleSize schedule = schedule_size(base_.cost, base_.layout.options, base_.layout.counts);
    throw InputError(fmt::format(
        "layout.schedule = \"auto\"{} is searched where blocks x micro-batches of a rank are at most {}, not {} x {}; {}; or "
        "name another schedule",
        limited ? " within layout.stage_gb" : "", most, blocks, base_.layout.micro_batches_per_rank,
        advice_for_at_most(most / blocks, base_.layout.slots_per_rank, schedule)));
  }

  int64_t max_activations() const {
    const int64_t most = recipe_.layout.schedule_activations;
    return most > 0 ? most : base_.layout.pp;
  }

  std::vector<int> cut(int stages) const {
    return choose_cut({.choice = recipe_.layout.stages, .stages = stages, .seconds = block_seconds(work_)});
  }

  Plan built(const Schedule& schedule, std::vector<int> first_block) const {
    Plan plan = base_;
    plan.layout.options.pipeline.given = schedule;
    plan.layout.options.pipeline.first_block = std::move(first_block);
    plan.program = build_program(plan.cost, step_layout(plan.layout.options, plan.layout.counts));
    return plan;
  }

  /// A step of one micro-batch: the links that the whole one uses.
  Program one_micro_batch(const std::vector<int>& first_block) const {
    LayoutOptions options = base_.layout.options;
    options.pipeline.given = make_schedule("naive", {.ranks = base_.layout.pp});
    options.pipeline.first_block = first_block;
    StepCounts counts = base_.layout.counts;
    counts.micro_batches = counts.slots = 1;
    return build_program(base_.cost, step_layout(options, counts));
  }

  /// Cut so that no rank is estimated to hold more than layout.stage_gb.
  Plan fitted(const Schedule& schedule) const {
    Plan plan = built(schedule, cut(schedule.num_stages()));
    if (recipe_.layout.stage_gb == 0.0) return plan;
    const int64_t limit = std::max<int64_t>(1, static_cast<int64_t>(recipe_.layout.stage_gb * (1 << 30)));
    const StageBytes bytes(schedule, work_, state_bytes(plan));
    std::set<std::vector<int>> tried;
    std::pair<int64_t, int> least = {std::numeric_limits<int64_t>::max(), 0};  // and the rank that holds it
    std::vector<int> least_cut;
    for (;;) {
      const std::vector<int>& first_block = plan.layout.options.pipeline.first_block;
      const std::vector<MemoryEstimate> by_place = memory_by_place(recipe_, plan);
      const int fullest = fullest_place(by_place);
      const int64_t most = by_place[fullest].total();
      if (most <= limit) return plan;
      if (most < least.first) least_cut = first_block;
      least = std::min(least, {most, fullest});
      tried.insert(first_block);
      std::optional<std::vector<int>> next = smaller_cut(plan, bytes, by_place, limit);
      if (!next || tried.count(*next) != 0) next = smaller_cut(plan, bytes, by_place, most - 1);
      const auto built_forwards = static_cast<int64_t>(tried.size()) * forwards();
      if (!next || tried.count(*next) != 0 || built_forwards > kMostForwardsOfCuts) break;
      plan = built(schedule, *next);
    }
    if (const std::optional<std::vector<int>> found = cut_of_all_stages(schedule, least_cut, limit)) {
      return built(schedule, *found);
    }
    throw InputError(
        fmt::format("layout.stage_gb = {:g} allows a rank {}, but with schedule {} and the best cut into {} stages that was "
                    "found pipeline rank {} holds {}; use more pipeline ranks, recompute or shards",
                    recipe_.layout.stage_gb, format_bytes(limit), schedule.name, schedule.num_stages(), least.second,
                    format_bytes(least.first)));
  }

  /// The fastest cut with which no rank should hold more than `limit`: each stage's blocks change, and what its rank holds
  /// beside them is taken to stay as it is estimated for this plan. None where there is no such cut.
  std::optional<std::vector<int>> smaller_cut(const Plan& plan, const StageBytes& bytes,
                                              const std::vector<MemoryEstimate>& by_place, int64_t limit) const {
    if (recipe_.layout.stages != "auto") return {};
    const PipelineOptions& pipeline = plan.layout.options.pipeline;
    const int stages = pipeline.given.num_stages();
    std::vector<int64_t> beside;
    for (int stage = 0; stage < stages; ++stage) {
      const int64_t rank_bytes = by_place[pipeline.given.rank_of_stage[stage]].total();
      beside.push_back(rank_bytes - bytes.of(pipeline.first_block, stage));
    }
    try {
      return balance_stages({.stages = stages,
                             .seconds = block_seconds(work_),
                             .max_bytes = limit,
                             .bytes = [&bytes](int block, int stage) { return bytes.of(block, stage); },
                             .fixed_bytes = std::move(beside)});
    } catch (const InputError&) {
      return {};
    }
  }

  /// smaller_cut() gives each stage what its rank's others leave, though they may be cut smaller too.
  std::optional<std::vector<int>> cut_of_all_stages(const Schedule& schedule, const std::vector<int>& near,
                                                    int64_t limit) const {
    const int stages = schedule.num_stages();
    if (recipe_.layout.stages != "auto" || stages == schedule.num_ranks()) return {};
    const auto rank_bytes = [&](const std::vector<int>& first_block) {
      std::vector<int64_t> bytes;
      for (const MemoryEstimate& rank : memory_by_place(recipe_, built(schedule, first_block))) bytes.push_back(rank.total());
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

  int most_tries(int64_t forwards_of_stages) const {
    if (forwards() > kMostForwards) return static_cast<int>(std::clamp<int64_t>(4 * kMostForwards / forwards(), 1, 4));
    return static_cast<int>(std::clamp<int64_t>(kMostForwards / forwards_of_stages, 16, 300));
  }

  /// Of each block, by what an element takes over the whole pipeline.
  std::vector<int64_t> state_bytes(const Plan& plan) const {
    double bytes = 0.0, elements = 0.0;
    for (const MemoryEstimate& estimate : memory_by_place(recipe_, plan)) bytes += static_cast<double>(estimate.model_states);
    for (const int64_t numel : plan.program.block_numel) elements += static_cast<double>(numel);
    std::vector<int64_t> result;
    for (const int64_t numel : plan.program.block_numel) {
      result.push_back(elements > 0.0 ? static_cast<int64_t>(bytes / elements * static_cast<double>(numel)) : 0);
    }
    return result;
  }

  Plan automatic() {
    const std::vector<int> first_block = cut(base_.layout.pp);
    take_unknown_links_as_free(first_block);
    consider_searched(first_block);
    consider_by_hand();
    if (!best_) throw InputError(refusal_);
    return std::move(*best_);
  }

  /// A profile of one rank tells no link, and the other schedules need none.
  void take_unknown_links_as_free(const std::vector<int>& first_block) {
    if (hardware_.intra_host.is_known && hardware_.inter_host.is_known && hardware_.tier.is_known) return;
    try {
      simulate(one_micro_batch(first_block), hardware_);
    } catch (const InputError&) {
      for (Link* link : {&hardware_.intra_host, &hardware_.inter_host, &hardware_.tier}) {
        searched_.free_messages |= !link->is_known;
        if (!link->is_known) *link = {};
      }
    }
  }

  /// With as many activations as are allowed; where layout.stage_gb is not kept with these, with as many as keep it.
  void consider_searched(const std::vector<int>& first_block) {
    int64_t fits = max_activations(), too_many = fits + 1;
    std::vector<int> taken = consider(search(first_block, fits));
    const auto try_fewer = [&](int64_t activations) {
      const std::vector<int> found = consider(search(first_block, activations));
      (found.empty() ? too_many : fits) = activations;
      if (!found.empty()) taken = found;
    };
    if (taken.empty()) too_many = std::min<int64_t>(fits, base_.layout.micro_batches_per_rank + 1);
    if (recipe_.layout.stage_gb > 0.0) {
      while (taken.empty() && too_many > 1) try_fewer(too_many / 2);
      while (!taken.empty() && too_many - fits > 1) try_fewer(fits + (too_many - fits) / 2);
    }
    searched_.fits = !taken.empty();
    if (searched_.fits && fits < max_activations()) searched_.fewer_activations = fits;
    if (searched_.fits && taken != first_block) consider(search(taken, fits));
  }

  Schedule search(const std::vector<int>& first_block, int64_t activations) {
    return make_schedule("auto", shape(),
                         {.costs = {.stages = stage_times(work_, first_block),
                                    .transfer = transfer_s(first_block),
                                    .max_activations = static_cast<double>(activations),
                                    .goal = Goal::makespan},  // updates wait for the loss's total, so for all ranks
                          .tasks_left = &tasks_left_});
  }

  /// Of the slowest message between neighbours.
  double transfer_s(const std::vector<int>& first_block) const {
    const Program program = one_micro_batch(first_block);
    const Ranks ranks(program);
    const Network network(ranks, hardware_);
    double longest = 0.0;
    for (int stage = 1; stage < static_cast<int>(first_block.size()); ++stage) {
      const auto bytes = static_cast<double>(base_.cost.blocks[first_block[stage] - 1].output_bytes);
      longest =
          std::max({longest, network.link(stage - 1, stage).seconds(bytes), network.link(stage, stage - 1).seconds(bytes)});
    }
    return longest;
  }

  /// All that keep the limit; of those of a long step only the one whose tasks take least, as each program takes seconds.
  void consider_by_hand() {
    std::vector<std::pair<double, Schedule>> by_time;
    for (const std::string& name : schedule_names()) {
      if (name == "auto" || name == "csv") continue;
      try {
        Schedule schedule = make_schedule(name, shape());
        if (peak_activations(schedule) > static_cast<double>(max_activations()) * (2.0 - kBetter)) continue;
        by_time.emplace_back(forwards() > kMostForwards ? tasks_s(schedule) : 0.0, std::move(schedule));
      } catch (const InputError&) {  // it needs other micro-batches, or more blocks
      }
    }
    const auto faster = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (forwards() > kMostForwards && !by_time.empty()) {
      by_time = {*std::min_element(by_time.begin(), by_time.end(), faster)};
    }
    for (const auto& [time, schedule] : by_time) consider(schedule);
  }

  double tasks_s(const Schedule& schedule) const {
    return makespan(task_times(schedule, stage_times(work_, cut(schedule.num_stages()))));
  }

  /// Returns the first block of each stage; none where the schedule does not fit.
  std::vector<int> consider(const Schedule& schedule) {
    try {
      Plan plan = fitted(schedule);
      std::vector<int> first_block = plan.layout.options.pipeline.first_block;
      const StepTime step = step_time(plan.program);
      if (best_ && !is_shorter(step, best_step_)) return first_block;
      best_step_ = step;
      best_ = std::move(plan);
      return first_block;
    } catch (const InputError& error) {
      if (refusal_.empty() || schedule.name == "auto") refusal_ = error.what();
      return {};
    }
  }

  StepTime step_time(const Program& program) const {
    const bool measured = !recipe_.layout.profile.empty() && !searched_.free_messages;
    return {.as_told_s = simulate(program, hardware_).step_s,
            .with_messages_s = measured ? 0.0 : simulate(program, nominal_hardware()).step_s};
  }

  const Recipe& recipe_;
  const Plan& base_;
  Hardware hardware_;
  std::vector<BlockWork> work_;
  std::optional<Plan> best_;  ///< of the automatic schedule, so far
  StepTime best_step_;
  Searched searched_;
  int64_t tasks_left_ = 2 * kMostSearchedTasks;  ///< of all searches
  std::string refusal_;                          ///< of what was searched with fewest activations
};

}  // namespace

std::string read_schedule(const LayoutRecipe& layout) {
  constexpr int64_t kLongest = 64 << 20;  // ten million tasks
  return read_text_file("schedule (layout.schedule_file)", layout.schedule_file, kLongest);
}

Plan plan_pipeline(const Recipe& recipe, const Plan& plan) { return Planner(recipe, plan).run(); }

}  // namespace weft
