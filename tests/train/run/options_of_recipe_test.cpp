#include "weft/train/run/options_of_recipe.h"

#include <gtest/gtest.h>

#include "weft/recipe/read/read_recipe.h"

namespace weft::options_of_recipe_test {
namespace {

TEST(FromRecipe, EveryWaitHasTheRecipesDeadline) {
  const Recipe recipe = parse_recipe(R"(
model = { name = "mlp" }
data = { name = "fashion-mnist" }
batch = { global = 64, micro = 4 }
run = { steps = 2, timeout_s = 7.5 }
)",
                                     "r.toml");
  const ResolvedLayout layout = resolve(recipe, 4);
  const LoaderOptions loader = loader_options(recipe, layout, 3);
  EXPECT_EQ(loader.timeout_s, 7.5);
  EXPECT_EQ(trainer_options(recipe, layout, at::kCPU).communication.timeout, std::chrono::milliseconds(7500));
  EXPECT_EQ(loader.global_batch, 64);
  EXPECT_EQ(loader.micro_batch, 4);
  EXPECT_EQ(loader.shard, 3);
  EXPECT_EQ(loader.num_shards, 4);
}

TEST(FromRecipe, ScalesTheRateToTheBatch) {
  const auto recipe = [](const std::string& batch, const std::string& optimizer) {
    return parse_recipe("model = { name = \"mlp\" }\ndata = { name = \"fashion-mnist\" }\nbatch = { global = 2048" + batch +
                            " }\noptimizer = { name = \"lars\", lr = 0.5" + optimizer + " }\nrun = { steps = 100 }",
                        "r.toml");
  };
  const Recipe plain = recipe("", ", warmup = 10");
  RunLengths lengths;
  lengths.steps = 100;
  lengths.warmup = 10;
  EXPECT_EQ(learning_rate_of(plain, lengths).peak, 0.5);
  EXPECT_EQ(learning_rate_rule(plain), "");
  const Recipe linear = recipe(", reference = 256", ", scale_lr = \"linear\", warmup = 10, warmup_from = \"reference\"");
  EXPECT_EQ(learning_rate_of(linear, lengths).peak, 4.0);
  EXPECT_EQ(learning_rate_of(linear, lengths).warmup_share, 0.125);
  EXPECT_EQ(learning_rate_rule(linear), "0.5 x 2048 / 256 (linear)");
  const Recipe root = recipe(", reference = 512", ", scale_lr = \"sqrt\"");
  EXPECT_EQ(learning_rate_of(root, lengths).peak, 1.0);
  EXPECT_EQ(learning_rate_rule(root), "0.5 x sqrt(2048 / 512) (sqrt)");
}

TEST(FromRecipe, TheRateFollowsTheBatchOfARamp) {
  const Recipe recipe = parse_recipe(R"(
model = { name = "mlp" }
data = { name = "fashion-mnist" }
batch = { global = 1024, micro = 256, reference = 256, ramp = [{ global = 256, steps = 5 }, { global = 512, steps = 20 }] }
optimizer = { name = "sgd", lr = 0.1, scale_lr = "linear", warmup = 10, warmup_from = "reference" }
run = { steps = 100 })",
                                     "r.toml");
  RunLengths lengths;
  lengths.steps = 100;
  lengths.warmup = 10;
  const auto rate = [&lengths](const Recipe& of, int64_t step) {
    return rate_at(learning_rate_of(of, lengths), rate_phases_of(of), step);
  };
  EXPECT_DOUBLE_EQ(rate(recipe, 2), 0.1);                 // the reference itself
  EXPECT_DOUBLE_EQ(rate(recipe, 7), 0.1 + 0.1 * 8 / 10);  // on the way from 0.1 to 0.2
  EXPECT_DOUBLE_EQ(rate(recipe, 24), 0.2);
  EXPECT_DOUBLE_EQ(rate(recipe, 25), 0.4);
  Recipe plain = recipe;
  plain.optimizer.scale_lr = "none";
  plain.optimizer.warmup_from = "zero";
  EXPECT_DOUBLE_EQ(rate(plain, 24), rate(plain, 25));
}

}  // namespace
}  // namespace weft::options_of_recipe_test
