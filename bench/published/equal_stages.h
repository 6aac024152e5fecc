// A published pipeline as a program: one-block stages with equal times, and nothing to reduce or update.
#pragma once

#include "weft/program/pipeline/schedule.h"
#include "weft/program/pipeline/task_times.h"
#include "weft/program/simulate/simulate.h"

namespace weft::published {

/// Simulates a step of the schedule without recompute, in the unit of the times (Simulation calls it seconds). `transfer` is
/// the latency of every link.
Simulation simulate_stages(const Schedule& schedule, const StageTimes& stage, double transfer = 0.0);

/// End of the last rank's last backward: the step's end except for summing the loss.
double last_work(const Simulation& simulation);

}  // namespace weft::published
