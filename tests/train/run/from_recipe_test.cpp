#include "weft/train/run/from_recipe.h"

#include <gtest/gtest.h>

#include "weft/train/recipe/read_recipe.h"

namespace weft::from_recipe_test {
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

}  // namespace
}  // namespace weft::from_recipe_test
