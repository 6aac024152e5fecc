#include "weft/plan/search/limiting.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "weft/base/units.h"
#include "weft/program/simulate/operator_time.h"
#include "weft/program/simulate/work_time.h"

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

double recompute_seconds(const Program& program, const SimulatedRank& rank, const WorkTime& work) {
  std::vector<bool> ran(static_cast<size_t>(program.num_blocks()) * program.micro_batches, false);
  double sum = 0.0;
  for (const Instruction& x : program.of(rank.rank)) {
    if (x.op != Op::forward) continue;
    auto once = ran[static_cast<size_t>(x.first) * program.micro_batches + x.micro];
    if (once) sum += work.seconds(x);
    once = true;
  }
  return sum;
}

std::string computing_text(const Program& program, const SimulatedRank& rank, const Hardware& hardware) {
  if (!hardware.operators || hardware.software) return "";
  OperatorTimes sum;
  const auto add = [&](const Instruction& x, BlockPass pass) {
    const SharedOperators& of = program.operators[x.first];
    if (!of) return;
    const OperatorTimes times = operator_times(of->passes[static_cast<size_t>(pass)], hardware);
    sum.products += times.products;
    sum.attention += times.attention;
    sum.memory_bound += times.memory_bound;
  };
  for (const Instruction& x : program.of(rank.rank)) {
    if (x.micro != 0) continue;
    if (x.op == Op::forward) add(x, BlockPass::forward);
    if (x.op == Op::backward) add(x, BlockPass::backward);
    if (x.op == Op::backward_input) add(x, BlockPass::input);
    if (x.op == Op::backward_weight) add(x, BlockPass::weight);
  }
  if (sum.total() <= 0.0) return "";
  const auto percent = [&](double seconds) { return 100.0 * seconds / sum.total(); };
  return fmt::format(": {:.0f} % products, {:.0f} % attention, {:.0f} % bytes through memory", percent(sum.products),
                     percent(sum.attention), percent(sum.memory_bound));
}

}  // namespace

std::string limiting_text(const Program& program, const Simulation& simulation, const Hardware& hardware) {
  const SimulatedRank& rank = busiest(simulation);
  std::map<std::string, double> parts = waits_of(program, rank);
  parts["recompute"] += recompute_seconds(program, rank, WorkTime(program, hardware));
  const auto most =
      std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto figures = [&](double seconds) {
    return fmt::format("{} of {}", format_duration(seconds), format_duration(simulation.step_s));
  };
  if (most->second >= kLeastShare * simulation.step_s) return fmt::format("{}: {}", most->first, figures(most->second));
  return fmt::format("computing: {}{}", figures(rank.busy_s), computing_text(program, rank, hardware));
}

}  // namespace weft
