#include "weft/plan/pipeline/schedule_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "weft/base/error.h"
#include "weft/plan/pipeline/stage_fitter.h"
#include "weft/program/build/build.h"
#include "weft/program/build/make_schedule.h"
#include "weft/program/schedules/automatic.h"
#include "weft/program/simulate/network.h"
#include "weft/program/simulate/simulate.h"

namespace weft {

namespace {

constexpr double kBetter = 1.0 - 1e-9;  ///< a smaller gain is rounding

constexpr int64_t kMostForwardsToSearch = 300'000;  ///< block forwards in a program whose schedule is searched

/// Step time of an automatic schedule's candidate. With free messages many steps are equally short; then `second` decides.
struct StepTime {
  double on_hardware_s = 0.0;
  double with_messages_s = 0.0;
};

bool is_shorter(const StepTime& a, const StepTime& b) {
  if (a.on_hardware_s < b.on_hardware_s * kBetter) return true;
  return a.on_hardware_s * kBetter <= b.on_hardware_s && a.with_messages_s < b.with_messages_s * kBetter;
}

class Search {
 public:
  Search(const Recipe& recipe, const Plan& base, const Hardware& hardware, const std::vector<BlockWork>& work)
      : recipe_(recipe), base_(base), hardware_(hardware), work_(work), fitter_(recipe, base, work) {}

  FoundSchedule run() {
    const std::vector<int> first_block = fitter_.cut(base_.layout.pp).take();
    take_unknown_links_as_free(first_block);
    consider_searched(first_block);
    consider_by_hand();
    if (!best_) throw InputError(refusal_);
    return {.plan = std::move(*best_), .searched = searched_};
  }

 private:
  PipelineShape shape() const {
    const int chunks = base_.layout.options.pipeline.chunks;
    return {.ranks = base_.layout.pp, .chunks = chunks, .micro_batches = base_.layout.micro_batches};
  }

  int64_t max_activations() const {
    const int64_t most = recipe_.layout.schedule_activations;
    return most > 0 ? most : base_.layout.pp;
  }

  /// Program of one micro-batch, which uses the same links as the whole step.
  Program one_micro_batch(const std::vector<int>& first_block) const {
    LayoutOptions options = base_.layout.options;
    options.pipeline.given = make_schedule("naive", {.ranks = base_.layout.pp});
    options.pipeline.first_block = first_block;
    StepCounts counts = base_.layout;
    counts.micro_batches = counts.slots = 1;
    return build_program(base_.cost, step_layout(options, counts));
  }

  /// Takes unknown links as free: a one-rank profile has no links, and named schedules work without them.
  void take_unknown_links_as_free(const std::vector<int>& first_block) {
    if (hardware_.intra_host.is_known && hardware_.inter_host.is_known && hardware_.offload.is_known) return;
    const LinksUsed used = links_used(one_micro_batch(first_block), hardware_);
    const std::pair<Link*, bool> links[] = {
        {&hardware_.intra_host, used.intra_host}, {&hardware_.inter_host, used.inter_host}, {&hardware_.offload, used.offload}};
    for (const auto& [link, is_used] : links) {
      if (link->is_known || !is_used) continue;
      searched_.free_messages = true;
      *link = {};
    }
  }

  /// Searches with the full activation limit, or the most activations that keep layout.stage_gb.
  void consider_searched(const std::vector<int>& first_block) {
    int64_t fits = max_activations(), too_many = fits + 1;
    std::vector<int> taken = consider(search(first_block, fits));
    const auto try_fewer = [&](int64_t activations) {
      const std::vector<int> found = consider(search(first_block, activations));
      (found.empty() ? too_many : fits) = activations;
      if (!found.empty()) taken = found;
    };
    if (taken.empty()) too_many = std::min<int64_t>(fits, base_.layout.micro_batches + 1);
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
                                    .goal = Goal::makespan},  // updates wait for the total loss, so for all ranks
                          .tasks_left = &tasks_left_});
  }

  /// Seconds of the slowest message between neighbours.
  double transfer_s(const std::vector<int>& first_block) const {
    const Program program = one_micro_batch(first_block);
    const Ranks ranks(program);
    Network network(ranks, hardware_);
    double longest = 0.0;
    for (int stage = 1; stage < static_cast<int>(first_block.size()); ++stage) {
      const auto bytes = static_cast<double>(base_.cost.blocks[first_block[stage] - 1].output_bytes);
      longest =
          std::max({longest, network.link(stage - 1, stage).seconds(bytes), network.link(stage, stage - 1).seconds(bytes)});
    }
    return longest;
  }

  /// Considers all built-in schedules within the limit; for a long step only the one with the shortest time in task_times().
  void consider_by_hand() {
    std::vector<std::pair<double, Schedule>> by_time;
    for (const std::string& name : schedule_names()) {
      if (name == "auto" || name == "csv") continue;
      if (!suits(name)) continue;
      Schedule schedule = make_schedule(name, shape());
      if (peak_activations(schedule) > static_cast<double>(max_activations()) * (2.0 - kBetter)) continue;
      const Found<std::vector<int>> first_block = fitter_.cut(schedule.num_stages());
      if (!first_block) continue;
      by_time.emplace_back(fitter_.forwards() > kMostForwards ? tasks_s(schedule, *first_block) : 0.0, std::move(schedule));
    }
    const auto faster = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (fitter_.forwards() > kMostForwards && !by_time.empty()) {
      by_time = {*std::min_element(by_time.begin(), by_time.end(), faster)};
    }
    for (const auto& [time, schedule] : by_time) consider(schedule);
  }

  /// True if the schedule fits the micro-batches and blocks and its step can be planned.
  bool suits(const std::string& name) const {
    LayoutOptions options = base_.layout.options;
    if (name == "interleaved" && options.pipeline.chunks < 2) return false;
    options.pipeline.schedule = name;
    const ScheduleSize size = schedule_size(base_.cost, options, base_.layout);
    const int64_t micro_batches = base_.layout.micro_batches;
    return micro_batches >= size.fewest_micro_batches && micro_batches % size.unit == 0 &&
           size.stages <= static_cast<int64_t>(work_.size()) && is_countable(base_.cost, options, base_.layout);
  }

  double tasks_s(const Schedule& schedule, const std::vector<int>& first_block) const {
    return makespan(task_times(schedule, stage_times(work_, first_block)));
  }

  /// Returns the first block of each stage; empty if the schedule does not fit.
  std::vector<int> consider(const Schedule& schedule) {
    Found<Plan> plan = fitter_.fitted(schedule);
    if (!plan) {
      if (refusal_.empty() || schedule.name == "auto") refusal_ = std::move(plan.why_not);
      return {};
    }
    std::vector<int> first_block = plan->layout.options.pipeline.first_block;
    const StepTime step = step_time(*plan->program);
    if (best_ && !is_shorter(step, best_step_)) return first_block;
    best_step_ = step;
    best_ = std::move(plan).take();
    return first_block;
  }

  StepTime step_time(const Program& program) const {
    const bool measured = !recipe_.layout.profile.empty() && !searched_.free_messages;
    return {.on_hardware_s = simulate(program, hardware_).step_s,
            .with_messages_s = measured ? 0.0 : simulate(program, nominal_hardware()).step_s};
  }

  const Recipe& recipe_;
  const Plan& base_;
  Hardware hardware_;
  const std::vector<BlockWork>& work_;
  StageFitter fitter_;
  std::optional<Plan> best_;  ///< so far
  StepTime best_step_;
  Searched searched_;
  int64_t tasks_left_ = 2 * kMostSearchedTasks;  ///< budget of all searches together
  std::string refusal_;                          ///< refusal of the search with the fewest activations
};

}  // namespace

void check_searchable(const Recipe& recipe, const Plan& base) {
  const bool limited = recipe.layout.stage_gb > 0.0;
  const int64_t most = limited ? kMostForwards : kMostForwardsToSearch;
  const auto blocks = static_cast<int64_t>(base.cost.blocks.size());
  const int64_t forwards = blocks * base.layout.micro_batches;
  if (forwards <= most || base.layout.pp > blocks) return;  // an impossible cut is reported elsewhere
  const ScheduleSize schedule = schedule_size(base.cost, base.layout.options, base.layout);
  throw InputError(
      fmt::format("layout.schedule = \"auto\"{} searches only up to {} blocks x micro-batches of a rank, not {} x {}; {}; or "
                  "name another schedule",
                  limited ? " within layout.stage_gb" : "", most, blocks, base.layout.micro_batches,
                  advice_for_at_most(most / blocks, base.layout.slots, schedule)));
}

FoundSchedule search_schedule(const Recipe& recipe, const Plan& base, const Hardware& hardware,
                              const std::vector<BlockWork>& work) {
  return Search(recipe, base, hardware, work).run();
}

}  // namespace weft
