// Hardware files that come with weft: each loads, names its sources and prices a step, inside a host and across hosts.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "weft/plan/forecast.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft::shipped_hardware_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGpt = R"(
  model = { name = "gpt", layers = 8, heads = 16, width = 2048, context = 1024 }
  data = { name = "text", path = "none.txt" }
  layout = { precision = "bf16", shard_level = "optimizer" }
  run = { steps = 1 }
)";

std::vector<fs::path> shipped_hardware() {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(WEFT_SOURCE "/hardware")) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// Step of the GPT with two samples per rank, all ranks sharding the optimizer's state.
RecipeSimulation step_on(int ranks, const Hardware& hardware) {
  const std::vector<std::string> overrides = {"layout.shard=" + std::to_string(ranks),
                                              "batch.global=" + std::to_string(2 * ranks), "batch.micro=2"};
  return recipe_simulation(parse_recipe(kGpt, "gpt.toml", overrides), ranks, hardware);
}

double peak_seconds(const RecipeSimulation& step, const Hardware& hardware) {
  double flops = 0.0;
  for (const Instruction& x : step.plan.program->of(0)) flops += x.flops;
  return flops / hardware.narrow_flops;
}

TEST(ShippedHardware, PricesAStepInsideAHostAndAcrossHosts) {
  const std::vector<fs::path> paths = shipped_hardware();
  EXPECT_GE(paths.size(), 15u);
  for (const fs::path& path : paths) {
    SCOPED_TRACE(path.filename());
    ASSERT_EQ(path.extension(), ".toml");
    const Hardware hardware = load_hardware(path);
    EXPECT_TRUE(hardware.intra_host.is_known && hardware.inter_host.is_known && hardware.offload.is_known);
    EXPECT_LT(hardware.memory_bytes, kFree);
    EXPECT_EQ(hardware.kind == "cuda", hardware.operators.has_value() && hardware.collectives.has_value());
    const int ranks = hardware.ranks_per_host;
    const RecipeSimulation one = step_on(1, hardware), host = step_on(ranks, hardware), hosts = step_on(4 * ranks, hardware);
    EXPECT_GT(one.simulation.step_s, peak_seconds(one, hardware));
    EXPECT_LT(one.simulation.step_s, 50.0 * peak_seconds(one, hardware));
    EXPECT_GE(host.simulation.step_s, 0.8 * one.simulation.step_s) << "only the update gets shorter";
    EXPECT_GT(hosts.simulation.step_s, host.simulation.step_s);
  }
}

TEST(ShippedHardware, EverySectionSaysWhereItsNumbersComeFrom) {
  for (const fs::path& path : shipped_hardware()) {
    std::ifstream file(path);
    std::string before;
    for (std::string line; std::getline(file, line); before = line) {
      const bool opens = line.starts_with("[");
      EXPECT_TRUE(!opens || before.starts_with("#")) << path.filename() << ": " << line;
    }
  }
}

}  // namespace
}  // namespace weft::shipped_hardware_test
