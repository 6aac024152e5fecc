// check_schedule: checks that a pipeline can follow a schedule and sums each gradient in one order.
//
// Every stage is on one rank, and runs there, for every micro-batch, one forward and either one whole backward or both of its
// parts. A stage takes its micro-batches in ascending order, in forward and where it adds to its gradients (backward,
// backward_weight), so sums have the same bits for every schedule. No two tasks wait for each other. Time and memory are
// proportional to the number of tasks.
#pragma once

#include "weft/program/pipeline/schedule.h"

namespace weft {

/// Throws InputError naming rank and task, with advice.
void check_schedule(const Schedule& schedule);

}  // namespace weft
