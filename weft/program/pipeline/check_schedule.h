// check_schedule: whether a pipeline can follow a schedule and sums each gradient in one order.
//
// Every stage lies on one rank, and runs there, for every micro-batch, one forward and either one whole backward or both of
// its parts. A stage takes its micro-batches in ascending order, forward and where it adds to its gradients (backward,
// backward_weight): so the sums are the same bits whatever the schedule. No task waits for one that waits for it.
// Costs time and memory proportional to the number of tasks.
#pragma once

#include "weft/program/pipeline/schedule.h"

namespace weft {

/// Throws InputError that names rank and task, and says what to do.
void check_schedule(const Schedule& schedule);

}  // namespace weft
