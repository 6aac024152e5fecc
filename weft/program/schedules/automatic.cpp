#include "weft/program/schedules/automatic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/program/pipeline/greedy_order.h"

namespace weft {
namespace {

constexpr double kBetter = 1.0 - 1e-9;  ///< a smaller gain is rounding
constexpr int kMostRounds = 8;          ///< of retrying each rank
constexpr int64_t kFewestTries = 8;     ///< for any size

const std::vector<double> kSlopes = {0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0};
const std::vector<int> kBases = {1, 2, 3, 4};
const std::vector<double> kGaps = {0.0, 0.3, 0.6, 1.0}, kPatiences = {0.0, 0.2, 0.5, 1.0};
const std::vector<Preference> kPreferences = {Preference::backward, Preference::alternate, Preference::forward};

class Search {
 public:
  Search(const PipelineCosts& costs, int micro_batches, int64_t most_tasks)
      : costs_(costs), micro_batches_(micro_batches), tries_left_(std::max(most_tasks / tasks_of_a_try(), kFewestTries)) {}

  int64_t placed_tasks() const { return tries_ * tasks_of_a_try(); }

  Schedule best(const std::vector<Schedule>& others) {
    try_grid();
    for (int round = 0; round < kMostRounds && try_neighbours(); ++round) {
    }
    for (const Schedule& other : others) {
      if (fits(other)) consider(other);
    }
    best_.name = "auto";
    return std::move(best_);
  }

 private:
  int64_t tasks_of_a_try() const { return int64_t{3} * costs_.num_ranks() * micro_batches_; }

  bool fits(const Schedule& other) const {
    if (other.micro_batches != micro_batches_) return false;
    if (other.num_stages() != costs_.num_ranks() || other.num_ranks() != costs_.num_ranks()) return false;
    for (int rank = 0; rank < other.num_ranks(); ++rank) {
      if (other.rank_of_stage[rank] != rank) return false;
      const double peak = peak_activations(other, rank, costs_.kept_share);
      if (costs_.max_activations > 0.0 && peak > costs_.max_activations + 1e-9) return false;
    }
    return true;
  }

  bool consider(Schedule schedule) {
    const TaskTimes times = task_times(schedule, costs_.stages, costs_.transfer);
    const double time = costs_.goal == Goal::makespan ? makespan(times) : longest_span(times);
    if (!best_.tasks.empty() && time >= best_time_ * kBetter) return false;
    best_time_ = time;
    best_ = std::move(schedule);
    return true;
  }

  bool try_rules(const GreedyRules& rules) {
    if (tries_left_ == 0) return false;
    --tries_left_;
    ++tries_;
    if (!consider(greedy_order(costs_, micro_batches_, rules))) return false;
    rules_ = rules;
    return true;
  }

  void try_grid() {
    const auto size =
        static_cast<int64_t>(kSlopes.size() * kBases.size() * kGaps.size() * kPatiences.size() * kPreferences.size());
    const int64_t stride = ceil_divide(size, tries_left_);
    int64_t place = 0;
    for (const double slope : kSlopes) {
      for (const int base : kBases) {
        GreedyRules rules{.ahead = {}};
        for (int rank = 0; rank < costs_.num_ranks(); ++rank) {
          rules.ahead.push_back(base + static_cast<int>(slope * (costs_.num_ranks() - 1 - rank)));
        }
        for_scalars(rules, kGaps, kPatiences, [&] {
          if (place++ % stride == 0) try_rules(rules);
        });
      }
    }
  }

  template <typename Visit>
  static void for_scalars(GreedyRules& rules, const std::vector<double>& gaps, const std::vector<double>& patiences,
                          Visit visit) {
    for (const double gap : gaps) {
      for (const double patience : patiences) {
        for (const Preference preference : kPreferences) {
          rules.least_gap = gap;
          rules.patience = patience;
          rules.preference = preference;
          visit();
        }
      }
    }
  }

  bool try_scalars(GreedyRules rules, const std::vector<double>& gaps, const std::vector<double>& patiences) {
    bool better = false;
    for_scalars(rules, gaps, patiences, [&] { better |= try_rules(rules); });
    return better;
  }

  /// For each rank, tries slightly more or fewer forwards ahead on it alone, on all ranks up to it, and on all from it on.
  bool try_neighbours() {
    bool better = false;
    const int last = costs_.num_ranks() - 1;
    for (int rank = 0; rank <= last && tries_left_ > 0; ++rank) {
      for (const int step : {-2, -1, 1, 2}) {
        for (const auto& [from, to] : {std::pair(rank, rank), std::pair(0, rank), std::pair(rank, last)}) {
          GreedyRules rules = rules_;
          for (int i = from; i <= to; ++i) rules.ahead[i] = std::max(rules.ahead[i] + step, 1);
          better |= try_rules(rules);
        }
      }
    }
    return try_scalars(rules_, {0.0, 0.15, 0.45, 0.8, 1.2}, {rules_.patience, 0.1, 0.35, 0.75}) || better;
  }

  const PipelineCosts& costs_;
  int micro_batches_;
  int64_t tries_left_, tries_ = 0;
  GreedyRules rules_;  ///< rules of best_
  Schedule best_;
  double best_time_ = 0.0;
};

void check(const PipelineCosts& costs, int micro_batches) {
  if (costs.stages.empty() || micro_batches < 1) {
    throw InputError(fmt::format("schedule auto: {} stages and {} micro-batches: each must be at least 1", costs.stages.size(),
                                 micro_batches));
  }
  if (costs.max_activations != 0.0 && !(costs.max_activations >= 1.0)) {
    throw InputError(fmt::format("schedule auto: a rank may hold {} activations: must be at least 1, or 0 for no limit",
                                 costs.max_activations));
  }
  if (!(costs.kept_share >= 0.0 && costs.kept_share <= 1.0)) {
    throw InputError(fmt::format("schedule auto: kept_share is {}: must be between 0 and 1", costs.kept_share));
  }
  const auto is_time = [](double time) { return std::isfinite(time) && time >= 0.0; };
  if (!is_time(costs.transfer))
    throw InputError(fmt::format("schedule auto: a transfer takes {}: times must be finite, 0 or more", costs.transfer));
  for (size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageTimes& times = costs.stages[stage];
    if (is_time(times.forward) && is_time(times.backward_input) && is_time(times.backward_weight) && is_time(times.recompute) &&
        is_time(times.backward())) {
      continue;
    }
    throw InputError(fmt::format(
        "schedule auto: stage {} takes {} forward, {} and {} backward, {} to recompute: times must be finite, 0 or more", stage,
        times.forward, times.backward_input, times.backward_weight, times.recompute));
  }
}

}  // namespace

Schedule automatic_schedule(const PipelineCosts& costs, int micro_batches, const std::vector<Schedule>& others,
                            int64_t* tasks_left) {
  check(costs, micro_batches);
  int64_t alone = 2 * kMostSearchedTasks;
  int64_t& left = tasks_left != nullptr ? *tasks_left : alone;
  Search search(costs, micro_batches, left / 2);
  Schedule best = search.best(others);
  left = std::max<int64_t>(left - search.placed_tasks(), 0);
  return best;
}

}  // namespace weft
