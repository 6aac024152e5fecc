#include "weft/plan/search/limiting.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "weft/base/units.h"

namespace weft {

namespace {

constexpr double kLeastShare = 0.1;  ///< of a step, below which waits are not what limits it

const SimulatedRank& busiest(const Simulation& simulation) {
  return *std::max_element(simulation.ranks.begin(), simulation.ranks.end(),
                           [](const SimulatedRank& a, const SimulatedRank& b) { return a.busy_s < b.busy_s; });
}

/// What an instruction moves, in the plural: "gathers of shard".
std::string moved_text(const Program& program, const Instruction& x) {
  if (is_collective(x)) {
    const bool gathers = x.op == Op::gather || x.op == Op::gather_gradients;
    const char* kind = gathers ? "gathers" : x.op == Op::reduce_scatter ? "reduce-scatters" : "all-reduces";
    return fmt::format("{} over {}", kind, name(x.axes));
  }
  if (is_transfer(x.op)) return "messages between stages";
  if (x.op == Op::offload || x.op == Op::reload) return "copies of offload";
  const std::vector<InnerCall>& calls = program.inner_calls(x);
  return calls.empty() ? "copies" : fmt::format("calls over {} inside blocks", name(calls.front().axes));
}

/// Seconds that the compute lane waits, by what it waits for.
std::map<std::string, double> waits_of(const Program& program, const SimulatedRank& rank) {
  std::map<std::string, double> waits;
  const InstructionList& list = program.of(rank.rank);
  for (size_t i = 0; i < list.size(); ++i) {
    if (rank.spans[i].exposed_s > 0.0) waits[moved_text(program, list[i]) + " exposed"] += rank.spans[i].exposed_s;
  }
  waits[program.mesh.pp > 1 ? "bubble of the pipeline" : "waits for other ranks"] += rank.waiting_s;
  waits["launches of the host"] += rank.launch_s;
  return waits;
}

std::string computing_text(const ComputingTimes& computing) {
  const double sum = computing.products + computing.attention + computing.memory_bound;
  if (sum <= 0.0) return "";
  const auto percent = [sum](double seconds) { return 100.0 * seconds / sum; };
  return fmt::format(": {:.0f} % products, {:.0f} % attention, {:.0f} % bytes through memory", percent(computing.products),
                     percent(computing.attention), percent(computing.memory_bound));
}

}  // namespace

std::string limiting_text(const Program& program, const Simulation& simulation) {
  const SimulatedRank& rank = busiest(simulation);
  std::map<std::string, double> parts = waits_of(program, rank);
  parts["recompute"] += rank.recompute_s;
  const auto most =
      std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto figures = [&](double seconds) {
    return fmt::format("{} of {}", format_duration(seconds), format_duration(simulation.step_s));
  };
  if (most->second >= kLeastShare * simulation.step_s) return fmt::format("{}: {}", most->first, figures(most->second));
  return fmt::format("computing: {}{}", figures(rank.busy_s), computing_text(rank.computing));
}

}  // namespace weft
