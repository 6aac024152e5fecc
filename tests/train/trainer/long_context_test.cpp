// Long sequences over context-parallel ranks: peak memory of a llama step at 32 768 tokens on four ranks, against one.
#include <ATen/ops/randint.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/run_ranks.h"
#include "weft/plan/forecast.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/trainer/trainer.h"

namespace weft::long_context_test {
namespace {

constexpr int64_t kTokens = 32768;
constexpr int kContextRanks = 4;
constexpr double kMost = 0.35, kTolerance = 0.05;

struct Shape {
  int layers, heads, kv_heads, width, vocabulary;
};

Recipe recipe_of(const Shape& m, int cp, const std::string& attention) {
  return parse_recipe(fmt::format(R"(
    model = {{ name = "llama", layers = {}, heads = {}, kv_heads = {}, width = {}, context = {}, vocabulary = {} }}
    data = {{ name = "text", path = "none.txt" }}
    batch = {{ global = 1 }}
    layout = {{ cp = {}, context_attention = "{}" }}
    run = {{ steps = 1, threads = 1 }}
  )",
                                  m.layers, m.heads, m.kv_heads, m.width, kTokens, m.vocabulary, cp, attention),
                      "long_context_test.toml");
}

double estimated(const Shape& model, int cp, const std::string& attention) {
  return static_cast<double>(recipe_memory(recipe_of(model, cp, attention), cp).estimate().of(MemoryCategory::activations));
}

TEST(LongContext, FourRanksAreEstimatedToKeepAThird) {
  const Shape model = {.layers = 4, .heads = 8, .kv_heads = 4, .width = 512, .vocabulary = 256};
  for (const std::string attention : {"ring", "all_to_all"}) {
    const double ratio = estimated(model, kContextRanks, attention) / estimated(model, 1, attention);
    EXPECT_LE(ratio, kMost) << attention;
    EXPECT_GE(ratio, 1.0 / kContextRanks) << attention;
  }
}

/// Peak of rank 0 over a step.
double measured(const Shape& model, int cp) {
  const Recipe recipe = recipe_of(model, cp, "ring");
  const ResolvedLayout layout = recipe_memory(recipe, cp).plan.layout;
  double peak = 0.0;
  test::run_ranks(
      cp,
      [&](World world) {
        MemoryLedger ledger;
        Trainer trainer(Mesh(world, {{"cp", cp}}), build_model(recipe.model), Sgd{.lr = 0.1},
                        {.global_batch = 1, .micro_batch = 1, .layout = layout.options, .ledger = &ledger});
        const at::Tensor tokens = at::randint(model.vocabulary, {1, kTokens + 1}, at::detail::createCPUGenerator(7), at::kLong);
        trainer.start();
        ledger.reset_peaks();
        trainer.step({{tokens.narrow(1, 0, kTokens).contiguous()}, tokens.narrow(1, 1, kTokens).contiguous(), 0});
        if (world.rank() == 0) peak = static_cast<double>(ledger.peak()[static_cast<size_t>(MemoryCategory::activations)]);
      },
      {.timeout = std::chrono::seconds(300)});
  return peak;
}

// Actually trained, small enough that attention takes seconds.
TEST(LongContext, FourRanksKeepAThird) {
  const Shape model = {.layers = 1, .heads = 1, .kv_heads = 1, .width = 8, .vocabulary = 256};
  const double alone = measured(model, 1), shared = measured(model, kContextRanks);
  EXPECT_LE(shared, kMost * alone);
  EXPECT_NEAR(alone, estimated(model, 1, "ring"), kTolerance * alone);
  EXPECT_NEAR(shared, estimated(model, kContextRanks, "ring"), kTolerance * shared);
}

}  // namespace
}  // namespace weft::long_context_test
