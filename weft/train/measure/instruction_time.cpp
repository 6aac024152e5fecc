#include "weft/train/measure/instruction_time.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/base/median.h"
#include "weft/plan/make_plan.h"
#include "weft/program/simulate/operator_time.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/measure/profile_blocks.h"

namespace weft {
namespace {

constexpr const char* kTinyRecipe = R"(
model = {{ name = "gpt", layers = 4, heads = 2, width = 16, context = 8 }}
data = {{ name = "text", tokenizer = "bytes" }}
batch = {{ global = {} }}
optimizer = {{ name = "sgd", lr = 1e-3 }}
run = {{ steps = 1, device = "{}", threads = {}, timeout_s = {} }}
)";

}  // namespace

double instruction_time(const World& world, const Hardware& hardware, int threads, std::chrono::milliseconds timeout) {
  const Recipe recipe = parse_recipe(
      fmt::format(kTinyRecipe, world.size(), hardware.kind, threads, std::chrono::duration<double>(timeout).count()),
      "calibrate");
  const Hardware timed = profile(recipe, world);
  const Plan plan = plan_without_program(recipe, world.size());
  std::vector<double> rest;
  for (size_t b = 0; b < plan.cost.blocks.size(); ++b) {
    const SharedOperators& of = plan.cost.blocks[b].operators;
    const BlockTime& time = timed.blocks[b];
    if (!of) continue;
    rest.push_back(*time.forward_s - operator_times(of->of(BlockPass::forward), hardware).total());
    rest.push_back(*time.backward_s - operator_times(of->of(BlockPass::adding_backward), hardware).total());
  }
  return std::max(0.0, median(std::move(rest)));
}

}  // namespace weft
