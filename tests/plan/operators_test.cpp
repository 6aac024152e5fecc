// Operators of a recipe's program, in every layout: they do the operations that its instructions declare, and price them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "weft/plan/forecast.h"
#include "weft/plan/make_plan.h"
#include "weft/program/simulate/work_time.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft::plan_operators_test {
namespace {

constexpr const char* kGpt = R"(
  model = { name = "gpt", layers = 4, heads = 4, width = 128, context = 128 }
  data = { name = "text", path = "none.txt" }
  batch = { global = 32, micro = 4 }
  run = { steps = 3, device = "cuda" }
)";

using Overrides = std::vector<std::string>;

Recipe recipe_of(const Overrides& overrides) { return parse_recipe(kGpt, "operators_test.toml", overrides); }

/// Operations as instructions count them: with the masked half of attention.
double flops_of(const PassOperators& operators) {
  double sum = 0.0;
  for (const OperatorWork& x : operators) sum += x.count * x.flops() * (x.is_causal ? 2.0 : 1.0);
  return sum;
}

double flops_of(const Program& program, const Instruction& x) {
  const BlockOperators& of = *program.operators[static_cast<size_t>(x.first)];
  if (x.op == Op::forward) return flops_of(of.of(BlockPass::forward));
  if (x.op == Op::backward) return flops_of(of.of(BlockPass::backward));
  return flops_of(of.of(x.op == Op::backward_input ? BlockPass::input : BlockPass::weight));
}

std::shared_ptr<const Program> program_of(const Overrides& overrides, int ranks) {
  return make_plan(recipe_of(overrides), ranks).program;
}

/// Plain numbers, not those of a device.
Hardware priced() {
  Hardware hardware{.name = "test",
                    .kind = "cuda",
                    .flops = 1e13,
                    .narrow_flops = 1e13,
                    .memory_bytes_per_s = 1e12,
                    .ranks_per_host = 8,
                    .intra_host = {.bytes_per_s = 1e11},
                    .inter_host = {.bytes_per_s = 1e10}};
  hardware.operators = {.products = {.processors = 100, .efficiency = 0.7, .fill = 64, .start_s = 1e-6},
                        .attention = {.forward = 0.5, .backward = 0.4},
                        .memory_bound = {.efficiency = 0.8, .start_s = 1e-6}};
  return hardware;
}

TEST(PlanOperators, DoTheOperationsOfTheirInstructions) {
  const std::vector<Overrides> layouts = {{},
                                          {"layout.precision=bf16"},
                                          {"layout.precision=bf16", "layout.reduction=fp32"},
                                          {"layout.shard=4", "layout.shard_level=parameters"},
                                          {"layout.recompute=blocks"},
                                          {"layout.recompute=attention"},
                                          {"layout.loss_chunk=64"},
                                          {"layout.tp=2"},
                                          {"layout.tp=4", "layout.sequence_parallel=true"},
                                          {"layout.tp=2", "layout.tp_chunks=2"},
                                          {"layout.tp=2", "layout.sequence_parallel=true", "layout.loss_chunk=64"},
                                          {"layout.cp=2"},
                                          {"layout.cp=2", "layout.context_attention=all_to_all"},
                                          {"layout.pp=4"},
                                          {"layout.pp=4", "layout.schedule=zb-h1"}};
  for (const Overrides& overrides : layouts) {
    SCOPED_TRACE(overrides.empty() ? "plain" : overrides.back());
    const std::shared_ptr<const Program> planned = program_of(overrides, 4);
    const Program& program = *planned;
    ASSERT_EQ(program.operators.size(), program.block_names.size());
    for (const InstructionList& list : program.lists) {
      for (const Instruction& x : list) {
        if (x.op != Op::forward && !is_backward(x.op)) continue;
        EXPECT_NEAR(flops_of(program, x), x.flops, 1e-9 * x.flops) << describe(x, program.block_names);
      }
    }
    const bool in_head = overrides.size() > 0 && overrides.back().find("loss_chunk") != std::string::npos;
    EXPECT_EQ(program.loss_operators.size() > 10, program.mesh.tp > 1 && !in_head) << "split over tp it is many operators";
    EXPECT_FALSE(program.loss_operators.empty());
  }
}

TEST(PlanOperators, BlocksThatAreAlikeShareATable) {
  const std::shared_ptr<const Program> program = program_of({}, 1);
  ASSERT_EQ(program->operators.size(), 6u);
  EXPECT_EQ(program->operators[2], program->operators[3]);
  EXPECT_NE(program->operators[0], program->operators[2]);
}

double step_s(const Overrides& overrides, const Hardware& hardware, int ranks = 1) {
  return recipe_simulation(recipe_of(overrides), ranks, hardware).simulation.step_s;
}

TEST(PlanOperators, LargerMicroBatchesAreFaster) {
  const auto gain = [](const Hardware& hardware) {
    return step_s({"batch.micro=1"}, hardware) / step_s({"batch.micro=16"}, hardware);
  };
  Hardware hardware = priced();
  EXPECT_GT(gain(hardware), 1.5) << "tiles and launches";
  hardware.operators.reset();
  EXPECT_LT(gain(hardware), 1.3) << "weights are read more often";
}

TEST(PlanOperators, AStepsTimeIsTheSumOfItsInstructions) {
  const Hardware hardware = priced();
  const RecipeSimulation result = recipe_simulation(recipe_of({}), 1, hardware);
  const WorkTime work(*result.plan.program, hardware);
  double sum = 0.0;
  for (const Instruction& x : result.plan.program->of(0)) sum += work.seconds(x);
  EXPECT_NEAR(result.simulation.step_s, sum, 1e-9 * sum);
  Hardware measured = hardware;
  measured.blocks = {{.name = "h.*", .forward_s = 1.0, .backward_s = 2.0}};
  EXPECT_NEAR(step_s({}, measured), 8 * 4 * 3.0, 0.1) << "8 micro-batches, 4 layers: measured times come first";
}

}  // namespace
}  // namespace weft::plan_operators_test
