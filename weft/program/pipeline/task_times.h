// task_times: when each task of a schedule runs, and what that says of the schedule: its step time, the share of time lost to
// waiting (the bubble) and the activations held.
//
// Model: each rank runs its tasks in order, each as soon as the rank is free and the task's inputs are there. A forward needs
// the stage before, a backward the stage after (the last stage its own forward), a backward_weight its own backward_input.
// What comes from another rank is there `transfer` after the task that made it has ended; the sender goes on meanwhile.
// Costs time and memory proportional to the number of tasks.
#pragma once

#include <optional>
#include <vector>

#include "weft/program/pipeline/schedule.h"

namespace weft {

/// How long a stage takes for one micro-batch, in any one unit of time.
struct StageTimes {
  double forward = 1.0;                       ///< without the recompute
  double backward_input = 1.0;                ///< the part of a backward that makes the gradient of the stage's input
  double backward_weight = 1.0;               ///< the rest of it
  double recompute = 0.0;                     ///< the forward again, before the backward that needs it
  std::optional<double> whole_backward = {};  ///< of one that is not split; left out: the sum of the two parts

  /// A backward that is not split, without the recompute.
  double backward() const { return whole_backward.value_or(backward_input + backward_weight); }
  /// A whole task, with the recompute, which is part of a backward or of its backward_input.
  double of(TaskKind kind) const;
  /// How long a task runs before it needs its input: a recompute does not wait for the gradient.
  double before_input(TaskKind kind) const;
};

/// When a task runs; the first task of a schedule starts at 0.
struct TaskTime {
  double start = 0.0;  ///< when it starts, with its recompute where it has one
  double end = 0.0;    ///< when its result is there
};

/// The times of all tasks, [rank][task], places as in Schedule::tasks.
using TaskTimes = std::vector<std::vector<TaskTime>>;

/// When each task runs. `by_stage` holds an entry for each stage. Throws InputError when it does not, when a task names a stage
/// or a micro-batch that is not there, and when some task can never start because a task is missing or tasks wait for one
/// another; the error names the rank and the task.
TaskTimes task_times(const Schedule& schedule, const std::vector<StageTimes>& by_stage, double transfer = 0.0);

/// The end of the last task. The first starts at 0.
double makespan(const TaskTimes& times);

/// The longest time of a rank from the start of its first task to the end of its last: what a step costs when the next may
/// begin on a rank as soon as that rank is done. It is the cost of a schedule in Qi et al. 2024 (arXiv:2401.10241,
/// section 5.2).
double longest_span(const TaskTimes& times);

/// The longest time that a rank computes.
double most_work(const TaskTimes& times);

/// The bubble rate of Qi et al. 2024: 1 - most_work / longest_span. 0 when there are no tasks.
double bubble_share(const TaskTimes& times);

/// Most activations that `rank` holds at a time: a forward's are held until its backward. Where that is split, its
/// backward_input leaves `kept_share` of them, which go with its backward_weight; for a transformer layer of h wide with a
/// heads on s tokens, and without a fused attention, that is 32 / (34 + 5 a s / h) (Qi et al. 2024, table 1). The unit is all
/// that the rank holds of the model, so that of v chunks each counts 1/v.
double peak_activations(const Schedule& schedule, int rank, double kept_share = 1.0);

/// Most activations that any rank holds at a time, in that unit.
double peak_activations(const Schedule& schedule);

}  // namespace weft
