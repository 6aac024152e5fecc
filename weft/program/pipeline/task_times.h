// task_times: start and end of each task of a schedule, and the resulting step time, share of time lost to waiting (the bubble)
// and held activations.
//
// Model: each rank runs its tasks in order, each as soon as the rank is free and the task's inputs are available. A forward
// needs the stage before, a backward the stage after (the last stage its own forward), a backward_weight its own
// backward_input. Data from another rank arrives `transfer` after the end of the task that made it; the sender continues
// meanwhile. Time and memory are proportional to the number of tasks.
#pragma once

#include <optional>
#include <vector>

#include "weft/program/pipeline/schedule.h"

namespace weft {

/// Times of a stage for one micro-batch, in any unit.
struct StageTimes {
  double forward = 1.0;                       ///< without the recompute
  double backward_input = 1.0;                ///< the backward part that computes the gradient of the stage's input
  double backward_weight = 1.0;               ///< the rest of the backward
  double recompute = 0.0;                     ///< repeated forward, before the backward that needs it
  std::optional<double> whole_backward = {};  ///< time of an unsplit backward; empty: the sum of the two parts

  /// Time of an unsplit backward, without the recompute.
  double backward() const { return whole_backward.value_or(backward_input + backward_weight); }
  /// Time of a whole task, with the recompute, which is part of a backward or backward_input.
  double of(TaskKind kind) const;
  /// Time that a task runs before it needs its input: a recompute does not wait for the gradient.
  double before_input(TaskKind kind) const;
};

/// Times of a task; the first task of a schedule starts at 0.
struct TaskTime {
  double start = 0.0;  ///< start, recompute included
  double end = 0.0;    ///< time when its result is ready
};

/// Times of all tasks, [rank][task], indexed as in Schedule::tasks.
using TaskTimes = std::vector<std::vector<TaskTime>>;

/// Returns when each task runs. `by_stage` has an entry per stage. Throws InputError if it does not, if a task names a
/// nonexistent stage or micro-batch, and if some task can never start because a task is missing or tasks wait for one another;
/// the error names the rank and the task.
TaskTimes task_times(const Schedule& schedule, const std::vector<StageTimes>& by_stage, double transfer = 0.0);

/// End of the last task; the first starts at 0.
double makespan(const TaskTimes& times);

/// Longest time of a rank from the start of its first task to the end of its last: the cost of a step if a rank may begin the
/// next one as soon as it is done. The cost of a schedule in Qi et al. 2024 (arXiv:2401.10241, section 5.2).
double longest_span(const TaskTimes& times);

/// Longest total compute time of a rank.
double most_work(const TaskTimes& times);

/// Bubble rate of Qi et al. 2024: 1 - most_work / longest_span. 0 without tasks.
double bubble_share(const TaskTimes& times);

/// Peak activations of `rank`: a forward's are held until its backward. If the backward is split, backward_input leaves
/// `kept_share` of them until backward_weight; for a transformer layer of width h with a heads on s tokens, without fused
/// attention, that is 32 / (34 + 5 a s / h) (Qi et al. 2024, table 1). The unit is the rank's whole part of the model, so each
/// of v chunks counts 1/v.
double peak_activations(const Schedule& schedule, int rank, double kept_share = 1.0);

/// Largest peak_activations() of all ranks.
double peak_activations(const Schedule& schedule);

}  // namespace weft
