#include "weft/program/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/check_program.h"
#include "weft/program/ranks.h"
#include "weft/program/simulate/events.h"
#include "weft/program/simulate/late_sums.h"
#include "weft/program/simulate/tally.h"
#include "weft/program/simulate/work_time.h"

namespace weft {
namespace {

constexpr double kLongestStep = 1e15;  // in seconds: 30 million years

// One rank per class of columns and place on the pipeline axis.
Simulation distinct_ranks(const Program& program, const Ranks& ranks) {
  const ColumnClasses classes = column_classes(program, ranks);
  const int pp_size = ranks.mesh().pp;
  Simulation simulation;
  for (int c = 0; c < classes.count(); ++c) {
    for (int pp = 0; pp < pp_size; ++pp) {
      SimulatedRank rank;
      rank.rank = ranks.rank_of(classes.first[c], pp);
      rank.count = classes.size[c];
      rank.pp = pp;
      simulation.ranks.push_back(std::move(rank));
    }
  }
  for (int rank = 0; rank < program.world_size(); ++rank) {
    simulation.index_of_rank.push_back(classes.of_column[ranks.column_of(rank)] * pp_size + rank / ranks.num_columns());
  }
  return simulation;
}

void add_up(const Program& program, const Hardware& hardware, const std::vector<MemoryOptions>& memory,
            Simulation& simulation) {
  const WorkTime work(program, hardware);
  for (SimulatedRank& rank : simulation.ranks) {
    tally(program, work, rank);
    rank.memory = estimate_checked_memory(program, rank.rank, memory.empty() ? MemoryOptions{} : memory[rank.pp]);
    rank.memory.set_activations(peak_activation_bytes(program.of(rank.rank), rank.spans));
    simulation.step_s = std::max(simulation.step_s, rank.end_s);
    simulation.span_s = std::max(simulation.span_s, rank.last_work_s - rank.first_work_s);
    simulation.flops += rank.count * rank.flops;
    simulation.model_flops += rank.count * (rank.flops - rank.recompute_flops);
  }
  if (hardware.software) simulation.step_s += hardware.software->step_s;
  if (!(simulation.step_s <= kLongestStep)) {
    throw InputError(
        fmt::format("simulate: a step on {} would take {:.3g} s; its rates are operations and bytes per "
                    "second, its times seconds",
                    named(hardware), simulation.step_s));
  }
  for (SimulatedRank& rank : simulation.ranks) {
    rank.waiting_s = simulation.step_s - rank.busy_s - rank.exposed_s - rank.launch_s;
  }
  const double possible = hardware.peak_flops(program.weight_bytes) * simulation.step_s * program.world_size();
  simulation.utilisation = possible > 0.0 ? simulation.model_flops / possible : 0.0;
}

}  // namespace

Simulation simulate(const Program& program, const Hardware& hardware, const std::vector<MemoryOptions>& memory,
                    const ModelLaunches& launches) {
  check_program(program);
  check_hardware(hardware);
  check_block_times(hardware, program.block_names);
  const Ranks ranks(program);
  if (!memory.empty() && static_cast<int>(memory.size()) != ranks.mesh().pp) {
    throw InputError(fmt::format("simulate: memory options are given for {} places of the pipeline axis, which has {}",
                                 memory.size(), ranks.mesh().pp));
  }
  Simulation simulation = distinct_ranks(program, ranks);
  if (hardware.software && !hardware.software->overlapped_gradients) {
    const LateSums late(program);
    run_events(late.program(), hardware, ranks, launches, simulation);
    add_up(late.program(), hardware, memory, simulation);
    late.restore(simulation);
    return simulation;
  }
  run_events(program, hardware, ranks, launches, simulation);
  add_up(program, hardware, memory, simulation);
  return simulation;
}

}  // namespace weft
