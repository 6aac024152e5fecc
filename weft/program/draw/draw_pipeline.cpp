#include "weft/program/draw/draw_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/program/cost.h"
#include "weft/program/draw/runs_text.h"
#include "weft/program/draw/time_chart.h"
#include "weft/program/ranks.h"
#include "weft/program/simulate/hardware.h"
#include "weft/program/simulate/simulate.h"
#include "weft/program/simulate/simulation.h"

namespace weft {
namespace {

// "0-2, 9-11"
std::string blocks_of(const InstructionList& list) {
  std::set<int> blocks;
  for (const Instruction& x : list) {
    if (x.op == Op::forward) blocks.insert(x.first);
  }
  return runs_text({blocks.begin(), blocks.end()}, 2);
}

std::string ranks_of(int first, int count) {
  return count == 1 ? fmt::to_string(first) : fmt::format("{}-{}", first, first + count - 1);
}

}  // namespace

std::string pipeline_chart(const Program& program, const DrawOptions& options) {
  try {
    const std::vector<TimedInstruction> timed = timed_instructions(program, simulate(program, counted_operations()));
    const std::string chart = time_chart(program, timed, {.width = options.width, .max_rows = options.max_ranks});
    return "pipeline over time, counting operations only: a blank is a wait\n" + chart_legend(timed, chart) + chart;
  } catch (const Error& error) {
    return fmt::format("pipeline over time: {}\n", error.what());
  }
}

std::vector<std::string> pipeline_rows(const Program& program) {
  const Ranks ranks(program);
  const int columns = ranks.num_columns();
  size_t width = 6;
  for (const InstructionList& list : program.lists) width = std::max(width, blocks_of(list).size());
  std::vector<std::string> rows = {fmt::format("  {:>3}  {:>9}  {:<{}}  {:>11}  {:>9}  {:>9}  {:>9}  {:>11}", "pp", "ranks",
                                               "blocks", width, "operations", "sends", "to stages", "gradients",
                                               "activations")};
  for (int pp = 0; pp < ranks.mesh().pp; ++pp) {
    const InstructionList& list = program.of(ranks.rank_of(0, pp));
    const StepCost cost = step_cost(list, program.offload);
    rows.push_back(fmt::format("  {:>3}  {:>9}  {:<{}}  {:>11}  {:>9}  {:>9}  {:>9}  {:>11}", pp,
                               ranks_of(ranks.rank_of(0, pp), columns), blocks_of(list), width, format_flops(cost.flops()),
                               format_bytes(cost.wire_bytes()), format_bytes(cost.transfer_wire_bytes),
                               format_bytes(cost.gradient_wire_bytes), format_bytes(cost.peak_activation_bytes)));
  }
  return rows;
}

}  // namespace weft
