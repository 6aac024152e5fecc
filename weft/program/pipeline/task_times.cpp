#include "weft/program/pipeline/task_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr double kNotDone = -1.0;
constexpr int kNobody = -1;

/// A result that other tasks wait for: the output of a forward, or the gradient that a backward passes on.
struct Result {
  double end = kNotDone;
  int waiting_rank = kNobody;  ///< at most one: only one other rank uses a result
};

/// The result that a task waits for, of the same micro-batch.
struct Need {
  TaskKind kind;  ///< forward, or backward (whole or input part)
  int stage;
};

/// Returns the result that `task` needs; empty for a first stage's forward.
std::optional<Need> needed_by(const Task& task, int num_stages) {
  if (task.kind == TaskKind::forward) return task.stage > 0 ? std::optional<Need>({task.kind, task.stage - 1}) : std::nullopt;
  if (task.kind == TaskKind::backward_weight) return Need{TaskKind::backward_input, task.stage};
  if (task.stage + 1 == num_stages) return Need{TaskKind::forward, task.stage};
  return Need{TaskKind::backward, task.stage + 1};
}

class Clock {
 public:
  Clock(const Schedule& schedule, const std::vector<StageTimes>& by_stage, double transfer)
      : schedule_(schedule),
        by_stage_(by_stage),
        transfer_(transfer),
        outputs_(num_results()),
        gradients_(num_results()),
        times_(schedule.tasks.size()),
        free_(schedule.tasks.size(), 0.0) {}

  TaskTimes run() {
    for (int rank = schedule_.num_ranks() - 1; rank >= 0; --rank) ready_.push_back(rank);
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      while (next(rank) < tasks(rank).size() && run_task(rank)) {
      }
    }
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) check_done(rank);
    return std::move(times_);
  }

 private:
  size_t num_results() const { return schedule_.rank_of_stage.size() * static_cast<size_t>(schedule_.micro_batches); }
  const std::vector<Task>& tasks(int rank) const { return schedule_.tasks[rank]; }
  size_t next(int rank) const { return times_[rank].size(); }

  Result& result(TaskKind kind, int stage, int micro) {
    return (kind == TaskKind::forward ? outputs_ : gradients_)[static_cast<size_t>(stage) * schedule_.micro_batches + micro];
  }

  /// Runs the rank's next task. Returns false if its input is not ready; the rank that makes the input then retries this one.
  bool run_task(int rank) {
    const Task& task = tasks(rank)[next(rank)];
    check_known(rank, task);
    double start = free_[rank];
    if (const auto need = needed_by(task, schedule_.num_stages())) {
      Result& input = result(need->kind, need->stage, task.micro);
      if (input.end == kNotDone) {
        input.waiting_rank = rank;
        return false;
      }
      const double there = input.end + (schedule_.rank_of_stage[need->stage] == rank ? 0.0 : transfer_);
      start = std::max(start, there - by_stage_[task.stage].before_input(task.kind));
    }
    free_[rank] = start + by_stage_[task.stage].of(task.kind);
    times_[rank].push_back({.start = start, .end = free_[rank]});
    if (task.kind != TaskKind::backward_weight) finish(task, free_[rank]);
    return true;
  }

  void finish(const Task& task, double end) {
    Result& made = result(task.kind, task.stage, task.micro);
    made.end = end;
    if (made.waiting_rank == kNobody) return;
    ready_.push_back(made.waiting_rank);
    made.waiting_rank = kNobody;
  }

  void check_known(int rank, const Task& task) const {
    const bool known =
        task.stage >= 0 && task.stage < schedule_.num_stages() && task.micro >= 0 && task.micro < schedule_.micro_batches;
    if (known) return;
    throw InputError(fmt::format(
        "schedule '{}', rank {}: {} of stage {}, micro-batch {}: there are {} stages and {} micro-batches", schedule_.name,
        rank, name(task.kind), task.stage, task.micro, schedule_.num_stages(), schedule_.micro_batches));
  }

  void check_done(int rank) const {
    std::vector<bool> seen(schedule_.tasks.size(), false);
    while (next(rank) < tasks(rank).size()) {
      seen[rank] = true;
      const Need need = *needed_by(tasks(rank)[next(rank)], schedule_.num_stages());
      const int maker = schedule_.rank_of_stage[need.stage];
      const bool comes = will_make(maker, need, tasks(rank)[next(rank)].micro);
      if (!comes || seen[maker]) fail_stuck(rank, need, maker, comes);
      rank = maker;
    }
  }

  bool will_make(int rank, const Need& need, int micro) const {
    return std::any_of(tasks(rank).begin() + static_cast<ptrdiff_t>(next(rank)), tasks(rank).end(), [&](const Task& task) {
      const bool right_kind = need.kind == TaskKind::forward
                                  ? task.kind == TaskKind::forward
                                  : task.kind == TaskKind::backward || task.kind == TaskKind::backward_input;
      return right_kind && task.stage == need.stage && task.micro == micro;
    });
  }

  [[noreturn]] void fail_stuck(int rank, const Need& need, int maker, bool comes) const {
    const Task& task = tasks(rank)[next(rank)];
    const std::string advice = comes ? fmt::format("which rank {} runs after the task that waits for it: put it earlier", maker)
                                     : fmt::format("which rank {} never runs: add it", maker);
    throw InputError(
        fmt::format("schedule '{}', rank {}: {} of stage {}, micro-batch {} can never start: it needs the {} of stage {}, {}",
                    schedule_.name, rank, name(task.kind), task.stage, task.micro, name(need.kind), need.stage, advice));
  }

  const Schedule& schedule_;
  const std::vector<StageTimes>& by_stage_;
  double transfer_;
  std::vector<Result> outputs_;    ///< [stage][micro-batch], of forwards
  std::vector<Result> gradients_;  ///< [stage][micro-batch], of backwards, whole or the input part
  TaskTimes times_;
  std::vector<double> free_;  ///< by rank: end of its last task so far
  std::vector<int> ready_;    ///< ranks whose next task may be ready
};

}  // namespace

double StageTimes::of(TaskKind kind) const {
  switch (kind) {
    case TaskKind::forward:
      return forward;
    case TaskKind::backward:
      return recompute + backward();
    case TaskKind::backward_input:
      return recompute + backward_input;
    case TaskKind::backward_weight:
      return backward_weight;
  }
  return 0.0;
}

double StageTimes::before_input(TaskKind kind) const {
  return kind == TaskKind::backward || kind == TaskKind::backward_input ? recompute : 0.0;
}

TaskTimes task_times(const Schedule& schedule, const std::vector<StageTimes>& by_stage, double transfer) {
  if (by_stage.size() != schedule.rank_of_stage.size()) {
    throw InputError(fmt::format("schedule '{}': times of {} stages are given, it has {}: give one entry per stage",
                                 schedule.name, by_stage.size(), schedule.num_stages()));
  }
  for (int stage = 0; stage < schedule.num_stages(); ++stage) {
    if (const int rank = schedule.rank_of_stage[stage]; rank < 0 || rank >= schedule.num_ranks()) {
      throw InputError(fmt::format("schedule '{}': stage {} is placed on rank {}, but only {} ranks have tasks", schedule.name,
                                   stage, rank, schedule.num_ranks()));
    }
  }
  return Clock(schedule, by_stage, transfer).run();
}

double makespan(const TaskTimes& times) {
  double end = 0.0;
  for (const auto& rank : times) {
    if (!rank.empty()) end = std::max(end, rank.back().end);
  }
  return end;
}

double longest_span(const TaskTimes& times) {
  double span = 0.0;
  for (const auto& rank : times) {
    if (!rank.empty()) span = std::max(span, rank.back().end - rank.front().start);
  }
  return span;
}

double most_work(const TaskTimes& times) {
  double most = 0.0;
  for (const auto& rank : times) {
    double work = 0.0;
    for (const TaskTime& task : rank) work += task.end - task.start;
    most = std::max(most, work);
  }
  return most;
}

double bubble_share(const TaskTimes& times) {
  const double span = longest_span(times);
  return span > 0.0 ? 1.0 - most_work(times) / span : 0.0;
}

double peak_activations(const Schedule& schedule, int rank, double kept_share) {
  const auto chunks = std::count(schedule.rank_of_stage.begin(), schedule.rank_of_stage.end(), rank);
  double held = 0.0;
  double most = 0.0;
  for (const Task& task : schedule.tasks.at(rank)) {
    if (task.kind == TaskKind::forward) most = std::max(most, held += 1.0);
    if (task.kind == TaskKind::backward) held -= 1.0;
    if (task.kind == TaskKind::backward_input) held -= 1.0 - kept_share;
    if (task.kind == TaskKind::backward_weight) held -= kept_share;
  }
  return chunks > 0 ? most / static_cast<double>(chunks) : 0.0;
}

double peak_activations(const Schedule& schedule) {
  double most = 0.0;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) most = std::max(most, peak_activations(schedule, rank));
  return most;
}

}  // namespace weft
