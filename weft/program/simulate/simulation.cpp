#include "weft/program/simulate/simulation.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/check_program.h"

namespace weft {
namespace {

double share_left(double part, double whole) { return whole > 0.0 ? 1.0 - part / whole : 0.0; }

}  // namespace

double Simulation::busiest_s() const {
  double most = 0.0;
  for (const SimulatedRank& rank : ranks) most = std::max(most, rank.busy_s);
  return most;
}

double Simulation::launch_bound_share() const {
  double most = 0.0;
  for (const SimulatedRank& rank : ranks) most = std::max(most, rank.launch_s);
  return step_s > 0.0 ? most / step_s : 0.0;
}

double Simulation::bubble_share() const { return share_left(busiest_s(), step_s); }

double Simulation::span_bubble_share() const {
  double most = 0.0;
  for (const SimulatedRank& rank : ranks) most = std::max(most, rank.span_work_s);
  return share_left(most, span_s);
}

std::vector<TimedInstruction> timed_instructions(const Program& program, const Simulation& simulation) {
  check_program(program);
  std::vector<TimedInstruction> timed;
  for (const SimulatedRank& rank : simulation.ranks) {
    if (rank.rank < 0 || rank.rank >= program.world_size() || rank.spans.size() != program.of(rank.rank).size()) {
      throw InputError(fmt::format("the simulation of rank {} belongs to another program", rank.rank));
    }
    const InstructionList& list = program.of(rank.rank);
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const Span& span = rank.spans[i];
      const double start_s = list[i].lane == Lane::compute ? span.start_s : span.begin_s;
      timed.push_back({.rank = rank.rank, .index = i, .start_s = start_s, .end_s = span.end_s, .alike = rank.count});
    }
  }
  std::stable_sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return timed;
}

}  // namespace weft
