#include "weft/plan/cost/cost_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/refusal.h"
#include "weft/base/in_parallel.h"
#include "weft/plan/cost/rank_memory.h"
#include "weft/plan/forecast.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/plan/make_plan.h"
#include "weft/program/fingerprint.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft::cost_table_test {
namespace {

constexpr const char* kGpt = R"(
model = { name = "gpt", layers = 4, heads = 4, width = 32, context = 16 }
data = { name = "text", path = "text" }
batch = { global = 32, micro = 2 }
optimizer = { lr = 1e-3 }
run = { steps = 5 }
)";
constexpr const char* kResnet = R"(
model = { name = "resnet", depth = 8, image_size = 8 }
data = { name = "images", path = "images" }
batch = { global = 32, micro = 2 }
optimizer = { name = "muon", lr = 1e-3 }
run = { steps = 5 }
)";

using Overrides = std::vector<std::string>;

Recipe recipe_of(const char* text, const Overrides& overrides = {}) { return parse_recipe(text, "cost_table_test", overrides); }

/// One table for all layouts gives the same costs as a table per layout.
void expect_the_same(const char* text, const std::vector<Overrides>& layouts, int measured) {
  const auto costs = std::make_shared<CostTable>(recipe_of(text));
  for (const Overrides& overrides : layouts) {
    const Recipe recipe = recipe_of(text, overrides);
    const RecipeMemory alone = recipe_memory(recipe, 4), shared = recipe_memory(recipe, 4, costs);
    const std::string what = overrides.empty() ? "plain" : overrides.back();
    EXPECT_EQ(fingerprint(*shared.plan.program), fingerprint(*alone.plan.program)) << what;
    for (size_t rank = 0; rank < alone.by_stage_rank.size(); ++rank) {
      EXPECT_EQ(shared.by_stage_rank[rank].total(), alone.by_stage_rank[rank].total()) << what << ", pp " << rank;
    }
    const Hardware hardware = nominal_hardware();
    EXPECT_EQ(recipe_simulation(recipe, 4, hardware, {}, costs).simulation.step_s,
              recipe_simulation(recipe, 4, hardware).simulation.step_s)
        << what;
  }
  EXPECT_EQ(costs->num_measured(), measured);
}

TEST(CostTable, PricesEachLayoutAsATableOfItsOwn) {
  expect_the_same(kGpt,
                  {{},
                   {"layout.shard=2"},  // costs the same as the first, as do the next two
                   {"layout.pp=2"},
                   {"layout.tp_chunks=4"},
                   {"batch.micro=4"},
                   {"layout.precision=bf16"},
                   {"layout.precision=bf16", "layout.reduction=fp32"},
                   {"layout.recompute=attention"},
                   {"layout.tp=2"},
                   {"layout.tp=2", "layout.sequence_parallel=true"},
                   {"layout.tp=2", "layout.tp_chunks=4"},
                   {"layout.cp=2"},
                   {"layout.cp=2", "layout.context_attention=all_to_all"},
                   {"layout.loss_chunk=64"},
                   {"layout.tp=4"}},
                  12);
}

TEST(CostTable, PricesStatisticsOverRanks) {
  expect_the_same(kResnet, {{}, {"layout.sync_batch_norm=dp"}, {"layout.sync_batch_norm=dp", "layout.dp=2", "layout.shard=2"}},
                  3);
}

TEST(CostTable, RefusesAnotherRecipe) {
  const auto costs = std::make_shared<CostTable>(recipe_of(kGpt));
  for (const char* other : {"model.layers=5", "optimizer.name=sgd", "data.path=other", "run.device=cuda"}) {
    const std::string error = test::refusal([&] { make_plan(recipe_of(kGpt, {other}), 4, costs); });
    EXPECT_NE(error.find("costs of another recipe"), std::string::npos) << other << ": " << error;
  }
}

TEST(PlannedDevice, IsTheRecipesOrTheHardwares) {
  const auto of = [](const Overrides& overrides, const std::string& kind) {
    Hardware hardware;
    hardware.kind = kind;
    return planned_device(for_hardware(recipe_of(kGpt, overrides), hardware));
  };
  EXPECT_EQ(of({"run.device=cpu"}, ""), TargetDevice::cpu);
  EXPECT_EQ(of({"run.device=cuda"}, ""), TargetDevice::gpu);
  EXPECT_EQ(of({"run.device=cuda"}, "cuda"), TargetDevice::gpu);
  EXPECT_EQ(of({}, "cuda"), TargetDevice::gpu);
  EXPECT_EQ(of({}, "cpu"), TargetDevice::cpu);
  EXPECT_EQ(test::refusal([&] { of({"run.device=cpu"}, "cuda"); }),
            "cost_table_test: run.device = \"cpu\", but the devices of hardware 'ideal' are of kind \"cuda\" (device.kind); "
            "leave one "
            "out");
}

TEST(CostTable, ThreadsMeasureEachLayoutOnce) {
  CostTable costs(recipe_of(kGpt));
  std::array<const ModelCost*, 12> found{};
  in_parallel(found.size(), 4, [&](size_t i) { found[i] = &costs.model_cost(1 + static_cast<int64_t>(i % 3)); });
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], &costs.model_cost(1 + static_cast<int64_t>(i % 3)));
  EXPECT_EQ(costs.num_measured(), 3);
}

Overrides with(Overrides overrides, const std::string& more) {
  overrides.push_back(more);
  return overrides;
}

/// What backward takes and what updates take is never there together.
TEST(RankMemory, is_at_once_the_larger_of_backward_and_update) {
  for (const Overrides& overrides : std::vector<Overrides>{{"batch.micro=1"}, {"batch.micro=32"}}) {
    const MemoryEstimate rank = recipe_memory(recipe_of(kGpt, with(overrides, "optimizer.name=lion")), 1).estimate();
    const int64_t backward = rank.of(MemoryCategory::activations) - rank.lasting_bytes + rank.backward_bytes;
    EXPECT_GT(rank.update_bytes, 0) << "the signs";
    EXPECT_EQ(rank.early_bytes, 0);
    EXPECT_EQ(rank.sum() - rank.total(), std::min(rank.update_bytes, backward));
    EXPECT_EQ(rank.reserved_bytes, rank.total()) << "a CPU's allocator does not round";
  }
}

/// Beside a CPU, host memory is the same memory: offloaded state stays in it.
TEST(RankMemory, offload_to_host_memory_saves_nothing_on_a_cpu) {
  const auto bytes = [](const std::string& place, const std::string& device) {
    return recipe_memory(recipe_of(kGpt, {"run.device=" + device, "layout.offload_optimizer=" + place}), 1).estimate().total();
  };
  EXPECT_GE(bytes("host", "cpu"), bytes("none", "cpu"));
  EXPECT_LT(bytes("disk", "cpu"), bytes("none", "cpu"));
  EXPECT_LT(bytes("host", "cuda"), bytes("none", "cuda"));
}

// Copies of weights and state are made where the device decides about an update, and only there.
TEST(RankMemory, updates_that_the_device_decides_about_copy_what_they_change) {
  const auto bytes_per_element = [](const Overrides& more) {
    Overrides all = {"run.device=cuda", "optimizer.name=lion"};
    all.insert(all.end(), more.begin(), more.end());
    const Recipe recipe = recipe_of(kGpt, all);
    const Plan plan = make_plan(recipe, 1);
    return memory_options(recipe, plan, 0).block_states.at(1).temporary_bytes / plan.program->block_numel.at(1);
  };
  EXPECT_EQ(bytes_per_element({}), 4 + 4 + 4) << "the signs, and copies of weights and mean";
  EXPECT_EQ(bytes_per_element({"optimizer.ema=0.99"}), 4 + 4 + 4);
  EXPECT_EQ(bytes_per_element({"run.noise_scale=true"}), 4 + 4 + 4);
  EXPECT_EQ(bytes_per_element({"run.device=cpu"}), 4);
}

}  // namespace
}  // namespace weft::cost_table_test
