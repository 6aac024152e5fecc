#include "weft/train/measure/block_samples.h"

#include <fmt/core.h>

#include <array>
#include <chrono>
#include <string>

#include "weft/plan/make_plan.h"
#include "weft/program/simulate/operator_time.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/measure/profile_blocks.h"

namespace weft {
namespace {

struct SmallModel {
  const char *model, *data;
  std::array<int, 2> micro_batches;
};

constexpr const char* kText = R"({ name = "text", tokenizer = "bytes" })";
constexpr const char* kImages = R"({ name = "fashion-mnist" })";
constexpr std::array<SmallModel, 4> kModels = {{
    {R"({ name = "gpt", layers = 2, heads = 4, width = 128, context = 128 })", kText, {1, 8}},
    {R"({ name = "llama", layers = 2, heads = 4, kv_heads = 2, width = 256, ffn = 512, context = 128 })", kText, {2, 16}},
    {R"({ name = "cnn", width = 16, classes = 10 })", kImages, {4, 32}},
    {R"({ name = "resnet", depth = 8, channels = 3, image_size = 32 })", kImages, {2, 16}},
}};

double bytes_of(const PassOperators& operators) {
  double bytes = 0.0;
  for (const OperatorWork& work : operators) bytes += work.count * load_of(work).bytes;
  return bytes;
}

}  // namespace

std::vector<BlockSample> measure_blocks(const World& world, const Hardware& hardware, int threads,
                                        std::chrono::milliseconds timeout) {
  std::vector<BlockSample> samples;
  for (const SmallModel& small : kModels) {
    for (const int micro : small.micro_batches) {
      const std::string text = fmt::format(
          "model = {}\ndata = {}\nbatch = {{ global = {}, micro = {} }}\n"
          "optimizer = {{ name = \"sgd\", lr = 1e-3 }}\n"
          "run = {{ steps = 1, device = \"{}\", threads = {}, timeout_s = {} }}\n",
          small.model, small.data, micro * world.size(), micro, hardware.kind, threads,
          std::chrono::duration<double>(timeout).count());
      const Recipe recipe = parse_recipe(text, "calibrate");
      const Hardware timed = profile(recipe, world, {.rounds = 2, .measures_machine = false});
      const Plan plan = plan_without_program(recipe, world.size());
      for (size_t b = 0; b < plan.cost.blocks.size(); ++b) {
        const SharedOperators& of = plan.cost.blocks[b].operators;
        if (!of) continue;
        const auto add = [&](BlockPass pass, double measured_s) {
          const PassOperators& operators = of->of(pass);
          samples.push_back({bytes_of(operators), operator_times(operators, hardware).total(), measured_s});
        };
        add(BlockPass::forward, *timed.blocks[b].forward_s);
        add(BlockPass::adding_backward, *timed.blocks[b].backward_s);
      }
    }
  }
  return samples;
}

}  // namespace weft
