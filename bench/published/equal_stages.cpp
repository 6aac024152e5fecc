#include "bench/published/equal_stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/program/build/build.h"

namespace weft::published {

Simulation simulate_stages(const Schedule& schedule, const StageTimes& stage, double transfer) {
  ModelCost model{.name = "equal stages", .blocks = {}};
  for (int b = 0; b < schedule.num_stages(); ++b) {
    model.blocks.push_back({.name = fmt::format("stage.{}", b), .splits = true});
  }
  const StepLayout layout = {.pp = schedule.num_ranks(), .schedule = schedule, .micro_batches = schedule.micro_batches};
  const Link link = {.latency_s = transfer};
  const Hardware hardware = {.name = "published times",
                             .intra_host = link,
                             .inter_host = link,
                             .blocks = {{.name = "stage.*",
                                         .forward_s = stage.forward,
                                         .backward_s = stage.backward(),
                                         .input_s = stage.backward_input,
                                         .weight_s = stage.backward_weight}}};
  return simulate(build_program(model, layout), hardware);
}

double last_work(const Simulation& simulation) {
  double last = 0.0;
  for (const SimulatedRank& rank : simulation.ranks) last = std::max(last, rank.last_work_s);
  return last;
}

}  // namespace weft::published
