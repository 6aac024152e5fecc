// A published pipeline as a program: stages of one block that all take the same times, with nothing to reduce or to update.
#pragma once

#include "weft/program/pipeline/schedule.h"
#include "weft/program/pipeline/task_times.h"
#include "weft/program/simulate/simulate.h"

namespace weft::published {

/// A step of the schedule, in the unit of the times (Simulation calls it seconds). Without recompute; `transfer` is the latency
/// of every link.
Simulation simulate_stages(const Schedule& schedule, const StageTimes& stage, double transfer = 0.0);

/// When the last rank ends its last backward; the step's end but for the loss's total.
double last_work(const Simulation& simulation);

}  // namespace weft::published
