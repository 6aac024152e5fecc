#include "weft/program/pipeline/greedy_order.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-9;  ///< relative to one activation, and to a stage's longest forward and backward

double longest_stage(const std::vector<StageTimes>& stages) {
  double longest = 0.0;
  for (const StageTimes& times : stages) longest = std::max(longest, times.forward + times.of(TaskKind::backward));
  return longest;
}

struct Rank {
  int forwards = 0, inputs = 0, weights = 0;  ///< done or running
  double activations = 0.0;
  double free = 0.0;   ///< time when its last task ends
  bool waits = false;  ///< waits for an input; an earlier one wakes it
  bool forward_last = false;
};

/// Next decision time of each rank: a tree whose nodes hold the earlier of their two halves.
class Agenda {
 public:
  explicit Agenda(size_t ranks) : leaves_(std::bit_ceil(ranks)), times_(leaves_, kNever), first_(2 * leaves_, 0) {
    std::fill_n(times_.begin(), ranks, 0.0);
    for (size_t i = 0; i < leaves_; ++i) first_[leaves_ + i] = static_cast<int>(i);
    for (size_t node = leaves_ - 1; node > 0; --node) compare(node);
  }

  /// The next rank; among equal times, the lowest.
  int first() const { return first_[1]; }
  double operator[](int rank) const { return times_[static_cast<size_t>(rank)]; }
  void set(int rank, double time) {
    times_[static_cast<size_t>(rank)] = time;
    for (size_t node = (leaves_ + static_cast<size_t>(rank)) / 2; node > 0; node /= 2) compare(node);
  }

 private:
  void compare(size_t node) {
    const int left = first_[2 * node], right = first_[2 * node + 1];
    first_[node] = (*this)[right] < (*this)[left] ? right : left;
  }

  size_t leaves_;
  std::vector<double> times_;
  std::vector<int> first_;  ///< by node, the root is 1
};

class Greedy {
 public:
  Greedy(const PipelineCosts& costs, int micro_batches, const GreedyRules& rules)
      : costs_(costs),
        rules_(rules),
        micro_batches_(micro_batches),
        last_(costs.num_ranks() - 1),
        limit_(costs.max_activations > 0.0 ? costs.max_activations : kNever),
        tolerance_(kTolerance * longest_stage(costs.stages)),
        ranks_(costs.stages.size()),
        agenda_(costs.stages.size()),
        outputs_(costs.stages.size() * micro_batches, kNever),
        gradients_(costs.stages.size() * micro_batches, kNever),
        tasks_(costs.stages.size()) {}

  std::vector<std::vector<Task>> run() {
    for (int64_t left = int64_t{3} * micro_batches_ * (last_ + 1); left > 0;) {
      const int first = agenda_.first();
      if (agenda_[first] == kNever) {
        throw InputError("greedy order: every rank waits for another: rules and memory must allow one micro-batch per rank");
      }
      if (decide(first)) --left;
    }
    return std::move(tasks_);
  }

 private:
  size_t place(int rank, int micro) const { return static_cast<size_t>(rank) * micro_batches_ + micro; }

  /// Earliest start of the rank's next forward; infinite if not known yet.
  double forward_at(int rank) const {
    const int micro = ranks_[rank].forwards;
    if (micro == micro_batches_) return kNever;
    return rank == 0 ? 0.0 : outputs_[place(rank - 1, micro)];
  }

  double input_at(int rank) const {
    const int micro = ranks_[rank].inputs;
    if (micro == ranks_[rank].forwards) return kNever;
    if (rank == last_) return 0.0;
    return gradients_[place(rank + 1, micro)] - costs_.stages[rank].before_input(TaskKind::backward_input);
  }

  /// Lets the rank take a task or wait. Returns true if it took a task.
  bool decide(int rank) {
    Rank& self = ranks_[rank];
    const double now = agenda_[rank] + tolerance_;
    const StageTimes& times = costs_.stages[rank];
    const bool wants_forward = self.forwards - self.inputs < rules_.ahead[rank];
    const bool has_memory = self.activations + 1.0 <= limit_ + kTolerance;
    const double forward = wants_forward ? forward_at(rank) : kNever;
    const double input = input_at(rank);
    if (input <= now && (forward > now || !has_memory || !prefers_forward(self))) return take(rank, TaskKind::backward_input);
    const bool may_forward = forward <= now && has_memory;
    const bool gives_way = input > now && input - now < rules_.patience * times.forward;
    if (may_forward && !gives_way) return take(rank, TaskKind::forward);

    const double next = std::min(has_memory && !may_forward ? forward : kNever, input);
    const bool memory_short = forward <= now && !has_memory;
    if (self.weights < self.inputs && (memory_short || next - now >= rules_.least_gap * times.backward_weight)) {
      return take(rank, TaskKind::backward_weight);
    }
    agenda_.set(rank, next);
    self.waits = true;
    return false;
  }

  bool prefers_forward(const Rank& self) const {
    if (rules_.preference == Preference::alternate) return !self.forward_last;
    return rules_.preference == Preference::forward;
  }

  bool take(int rank, TaskKind kind) {
    Rank& self = ranks_[rank];
    self.waits = false;
    self.free = agenda_[rank] + costs_.stages[rank].of(kind);
    agenda_.set(rank, self.free);
    const double elsewhere = self.free + costs_.transfer;
    if (kind == TaskKind::forward) {
      self.activations += 1.0;
      add(rank, kind, self.forwards++);
      outputs_[place(rank, self.forwards - 1)] = elsewhere;
      if (rank < last_) notify(rank + 1, elsewhere);
    } else if (kind == TaskKind::backward_input) {
      self.activations -= 1.0 - costs_.kept_share;
      add(rank, kind, self.inputs++);
      gradients_[place(rank, self.inputs - 1)] = elsewhere;
      if (rank > 0) notify(rank - 1, elsewhere - costs_.stages[rank - 1].before_input(kind));
    } else {
      self.activations -= costs_.kept_share;
      add(rank, kind, self.weights++);
      return true;
    }
    self.forward_last = kind == TaskKind::forward;
    return true;
  }

  void add(int rank, TaskKind kind, int micro) { tasks_[rank].push_back({kind, rank, micro}); }

  /// Lets `rank` know that an input reaches it at this time.
  void notify(int rank, double at) {
    Rank& self = ranks_[rank];
    if (self.waits) agenda_.set(rank, std::max(self.free, std::min(agenda_[rank], at)));
  }

  const PipelineCosts& costs_;
  const GreedyRules& rules_;
  int micro_batches_, last_;
  double limit_;
  double tolerance_;
  std::vector<Rank> ranks_;
  Agenda agenda_;
  std::vector<double> outputs_, gradients_;  ///< [rank][micro-batch]: arrival at the neighbour
  std::vector<std::vector<Task>> tasks_;
};

}  // namespace

Schedule greedy_order(const PipelineCosts& costs, int micro_batches, const GreedyRules& rules) {
  Schedule schedule{.name = "auto", .micro_batches = micro_batches, .rank_of_stage = {}, .tasks = {}};
  schedule.rank_of_stage.resize(costs.stages.size());
  std::iota(schedule.rank_of_stage.begin(), schedule.rank_of_stage.end(), 0);
  schedule.tasks = Greedy(costs, micro_batches, rules).run();
  return schedule;
}

}  // namespace weft
