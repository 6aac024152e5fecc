// Measured against predicted memory: what the allocator saw during training, category by category.
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/support/run_processes.h"
#include "tests/support/run_ranks.h"
#include "weft/plan/forecast.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/measure/step_memory.h"
#include "weft/train/trainer/trainer.h"

namespace weft {
namespace {

constexpr int kRanks = 2;
constexpr double kTolerance = 0.05;

struct Case {
  std::string level;
  std::string recompute;
  std::string precision;
  std::string more = {};  ///< keys of the layout
  std::string model = "gpt";
  int ranks = 2;
  double ema = 0.0;
  std::string pack = "stream";
  std::string optimizer = "adamw";
  int slots = 0;  ///< with tied embeddings: each use has separate gradients
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* level : {"none", "optimizer", "gradients", "parameters"}) {
    all.push_back({level, "none", "fp32"});
    all.push_back({level, "blocks", "fp32"});
    all.push_back({level, level == std::string("none") ? "attention" : "none", "bf16"});
  }
  all.push_back({"none", "blocks", "fp32", ", recompute_every = 2, offload_activations = \"disk\""});
  all.push_back({"none", "none", "fp32", ", bucket_mb = 10", "llama"});
  all.push_back({"parameters", "attention", "bf16", ", prefetch = 1", "llama"});
  for (const char* level : {"none", "gradients", "parameters"}) {
    all.push_back({level, "none", level == std::string("gradients") ? "bf16" : "fp32", "", "gpt", 2, 0.9});
  }
  all.push_back({"parameters", "none", "fp32", ", offload_optimizer = \"disk\"", "gpt", 2, 0.9});
  all.push_back({"parameters", "blocks", "bf16",
                 ", offload_optimizer = \"host\", offload_parameters = \"host\", offload_activations = \"host\""});
  all.push_back({"none", "none", "fp32", ", style = \"master\""});
  all.push_back({"none", "blocks", "bf16", ", style = \"master\"", "llama", 4});
  for (const char* model : {"gpt", "llama"}) {
    all.push_back({"none", "none", "fp32", "", model, 1, 0.0, "documents"});
    all.push_back({"none", "blocks", "bf16", "", model, 2, 0.0, "documents"});
    all.push_back({"none", "none", "fp32", ", tp = 2", model});
    all.push_back({"none", "none", "fp32", ", tp = 2, sequence_parallel = true", model});
    all.push_back({"none", "none", "fp32", ", tp = 2, sequence_parallel = true, tp_chunks = 4", model});
    all.push_back({"none", "blocks", "bf16", ", tp = 4, sequence_parallel = true", model, 4});
    all.push_back({"none", "attention", "fp32", ", tp = 2, sequence_parallel = true", model});
    all.push_back({"parameters", "none", "fp32", ", tp = 2, sequence_parallel = true", model, 4});
    all.push_back({"none", "none", "fp32", ", cp = 2, context_attention = \"ring\"", model});
    all.push_back({"none", "none", "bf16", ", cp = 4, context_attention = \"ring\"", model, 4});
    all.push_back({"none", "none", "fp32", ", cp = 2, context_attention = \"all_to_all\"", model});
    all.push_back({"none", "none", "fp32", ", cp = 2, tp = 2, sequence_parallel = true", model, 4});
  }
  for (const char* level : {"none", "optimizer", "gradients", "parameters"}) {
    all.push_back({level, "none", level == std::string("gradients") ? "bf16" : "fp32", "", "gpt", 2, 0.0, "stream", "muon"});
    all.push_back(
        {level, "none", level == std::string("optimizer") ? "bf16" : "fp32", "", "gpt", 2, 0.0, "stream", "adafactor"});
  }
  for (const char* level : {"none", "optimizer", "gradients", "parameters"}) {
    all.push_back(
        {level, "none", level == std::string("gradients") ? "bf16" : "fp32", "", "gpt", 2, 0.0, "stream", "adamw", 4});
  }
  all.push_back({"none", "none", "fp32", "", "gpt", 1, 0.0, "stream", "adamw", 2});
  return all;
}

/// The GPT recipe's shape, a third of its size; half the batch in bf16, whose products take five times as long on a CPU
/// without instructions for them.
Recipe recipe_of(const Case& c) {
  return parse_recipe(fmt::format(R"(
    model = {{ name = "{}", layers = 4, heads = 4, width = 128, context = 64, tied_embeddings = {} }}
    data = {{ name = "text", path = "none.txt", pack = "{}" }}
    batch = {{ global = {} }}
    layout = {{ shard_level = "{}", recompute = "{}", precision = "{}"{} }}
    optimizer = {{ name = "{}", ema = {} }}
    run = {{ steps = 3, threads = 1, reproducible_slots = {} }}
  )",
                                  c.model, c.slots > 0, c.pack, c.precision == "bf16" ? 4 : 8, c.level, c.recompute,
                                  c.precision, c.more, c.optimizer, c.ema, c.slots),
                      "memory_test.toml");
}

/// With positions of two documents per sample if packed.
Batch batch_of(int64_t samples, const Recipe& recipe) {
  const at::Tensor tokens = at::randint(256, {samples, 65}, at::detail::createCPUGenerator(5), at::kLong);
  Batch batch{{tokens.narrow(1, 0, 64).contiguous()}, tokens.narrow(1, 1, 64).contiguous(), 0};
  if (recipe.data.pack == "documents") {
    batch.inputs.push_back(at::arange(64, at::kLong).remainder(40).expand({samples, 64}).contiguous());
  }
  return batch;
}

/// Peaks of rank 0 over the second step, the first in which all state is there.
CategoryBytes measure(const Recipe& recipe, const ResolvedLayout& layout) {
  CategoryBytes peak{};
  const int data_ranks = layout.dp * layout.shard;
  test::run_ranks(layout.pp * data_ranks * layout.cp * layout.tp, [&](World world) {
    const Batch batch = batch_of(layout.global_batch / data_ranks, recipe);
    const CategoryBytes own = step_memory(recipe, layout, world, batch, {.backend = BackendKind::shm}).peak.value();
    if (world.rank() == 0) peak = own;
  });
  return peak;
}

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.level << " " << c.recompute << " " << c.precision << c.more << " " << c.model << " " << c.pack << " "
             << c.optimizer << (c.ema > 0 ? " ema" : "") << (c.slots > 0 ? " tied with slots" : "");
}

class MemoryTest : public ::testing::TestWithParam<Case> {};

TEST_P(MemoryTest, MeasuredIsAsPredicted) {
  const Recipe recipe = recipe_of(GetParam());
  const RecipeMemory predicted = recipe_memory(recipe, GetParam().ranks);
  const CategoryBytes measured = measure(recipe, predicted.plan.layout);
  for (size_t i = 0; i < kMemoryCategories.size(); ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    const auto expected = static_cast<double>(predicted.estimate().of(category));
    const auto actual = static_cast<double>(measured[i]);
    const auto packed =
        static_cast<double>(category == MemoryCategory::activations ? packed_for_products(recipe, predicted.plan.layout)
                            : category == MemoryCategory::optimizer ? packed_for_updates(recipe)
                                                                    : 0);
    // Whole-tensor updates are forecast for a rank that owns all of the largest tensor.
    const bool bound = category == MemoryCategory::optimizer && GetParam().optimizer != "adamw";
    EXPECT_GE(actual, (bound ? 0.5 : 1.0 - kTolerance) * expected) << name(category);
    EXPECT_LE(actual, (1.0 + kTolerance) * expected + packed) << name(category);
  }
}

// Buffers registered with a group in two levels are in the shared memory of its ranks on a host: no allocator sees them.
TEST(MemoryLedger, CountsTheBuffersOfAGroupInTwoLevels) {
  const auto results = test::run_processes(
      4,
      [](World world) {
        MemoryLedger ledger;
        const Recipe recipe = recipe_of({"none", "none", "fp32"});
        Trainer trainer(Mesh(world, {{"dp", 4}}), build_model(recipe.model), AdamW{},
                        {.global_batch = 4, .micro_batch = 1, .ledger = &ledger});
        trainer.start();
        int64_t numel = 0;
        for (const Param& param : trainer.model().params()) numel += param.numel;
        const CategoryBytes live = ledger.live();
        const auto bytes = [&](MemoryCategory category) { return live[static_cast<size_t>(category)]; };
        return fmt::format("{} {}", bytes(MemoryCategory::gradients) >= 4 * numel, bytes(MemoryCategory::communication) > 0);
      },
      {.hosts = {"a", "a", "b", "b"}});
  for (const auto& result : results) EXPECT_EQ(result.output, "true true") << result.error;
}

struct Offloaded {
  const char* what;
  Case without;
  const char* keys;
  MemoryCategory category;
};

/// Not the prediction alone, which can be wrong in the same way twice: bytes with and without.
TEST(MemoryOffload, FreesThePredictedMemory) {
  const char* activations = ", offload_activations = \"disk\"";
  const std::vector<Offloaded> cases = {
      {"inputs of all blocks", {"none", "blocks", "fp32"}, activations, MemoryCategory::activations},
      {"of every second, narrow",
       {"none", "blocks", "bf16", ", recompute_every = 2"},
       activations,
       MemoryCategory::activations},
      {"of every second, sharded",
       {"parameters", "blocks", "fp32", ", recompute_every = 2"},
       activations,
       MemoryCategory::activations},
      {"optimizer", {"none", "none", "fp32"}, ", offload_optimizer = \"disk\"", MemoryCategory::optimizer},
      {"weights", {"parameters", "none", "fp32"}, ", offload_parameters = \"disk\"", MemoryCategory::weights},
      {"master weights", {"parameters", "none", "bf16"}, ", offload_parameters = \"disk\"", MemoryCategory::master},
  };
  for (const Offloaded& c : cases) {
    Case with = c.without;
    with.more += c.keys;
    int64_t predicted = 0, measured = 0;
    for (const int sign : {1, -1}) {
      const Recipe recipe = recipe_of(sign > 0 ? c.without : with);
      const RecipeMemory memory = recipe_memory(recipe, kRanks);
      predicted += sign * memory.estimate().of(c.category);
      measured += sign * measure(recipe, memory.plan.layout)[static_cast<size_t>(c.category)];
    }
    EXPECT_GT(measured, 0) << c.what << ": nothing is freed";
    EXPECT_NEAR(static_cast<double>(measured), static_cast<double>(predicted), 0.02 * static_cast<double>(predicted)) << c.what;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, MemoryTest, ::testing::ValuesIn(cases()), [](const auto& info) {
  const bool plain = info.param.more.empty() && info.param.ema == 0.0 && info.param.pack == "stream" &&
                     info.param.optimizer == "adamw" && info.param.slots == 0;
  const std::string more = plain ? "" : "_more_" + std::to_string(info.index);
  return info.param.level + "_" + info.param.recompute + "_" + info.param.precision + more;
});

}  // namespace
}  // namespace weft
