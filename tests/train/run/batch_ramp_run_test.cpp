// Whole runs of recipes with a growing batch, while measuring the noise scale: the same weights on one rank and two,
// uninterrupted and resumed, and the errors before a run begins.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/train/run/train_on_ranks.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/plan/make_plan.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/run/train.h"

namespace weft::batch_ramp_run_test {
namespace {

class BatchRampRun : public ::testing::Test {
 protected:
  BatchRampRun() : threads_(at::get_num_threads()) {
    std::string text;
    for (int i = 0; i < 100; ++i) text += fmt::format("line {} of a text that repeats itself\n", i);
    folder_.write("text", text);
  }
  ~BatchRampRun() override { at::set_num_threads(threads_); }

  Recipe recipe(const std::vector<std::string>& overrides = {}) const {
    return parse_recipe(fmt::format(R"(
model = {{ name = "gpt", layers = 1, heads = 2, width = 16, context = 16 }}
data = {{ name = "text", path = "{}" }}
batch = {{ global = 16, micro = 1, ramp = [{{ global = 4, steps = 2 }}, {{ global = 8, steps = 2 }}] }}
optimizer = {{ lr = 1e-2 }}
run = {{ samples = 56, evaluate_every = "24 samples", reproducible_slots = 4, noise_scale = true }})",
                                    folder_.file("text")),
                        "ramp.toml", overrides);
  }
  FinalReport run(int ranks, const Recipe& recipe) const { return test::train_on_ranks(ranks, recipe); }

  test::TempFolder folder_;
  int threads_;
};

TEST_F(BatchRampRun, HasTheSameBitsOnAnyRanksAndWhenResumed) {
  const FinalReport one = run(1, recipe());
  EXPECT_EQ(one.steps, 6) << "4 + 4 + 8 + 8 + 16 + 16 samples";
  ASSERT_TRUE(one.noise_scale);
  EXPECT_EQ(one.noise_scale->steps, 6);
  const FinalReport two = run(2, recipe());
  EXPECT_EQ(two.weights_sha256, one.weights_sha256);
  EXPECT_EQ(two.noise_scale->trace, one.noise_scale->trace);
  EXPECT_NE(test::refusal([&] { recipe({"run.samples=20", "run.steps=4"}); }), "") << "it ends within the ramp";
  // Stopped in the second phase.
  run(2, recipe({"save.folder=" + folder_.file("saves"), "save.every=3"}));
  const FinalReport resumed = run(1, recipe({"run.resume=" + folder_.file("saves/" + checkpoint_name(3))}));
  EXPECT_EQ(resumed.resumed_from, 3);
  EXPECT_EQ(resumed.weights_sha256, one.weights_sha256);
  EXPECT_EQ(resumed.noise_scale->trace, one.noise_scale->trace) << "what steps reported joins the checkpoint";
}

TEST_F(BatchRampRun, PhasesArePlannedBeforeItBegins) {
  const Plan plan = make_plan(recipe(), 2);
  ASSERT_EQ(plan.ramp.size(), 2u);
  EXPECT_EQ(plan.ramp[0]->micro_batches, 2);
  EXPECT_EQ(plan.ramp[1]->micro_batches, 4);
  EXPECT_EQ(plan.program->micro_batches, 8);
  const std::string reported = test::refusal([&] { make_plan(recipe({"batch.ramp.1.global=6"}), 1); });
  EXPECT_NE(reported.find("(batch.global of phase 1 of batch.ramp)"), std::string::npos) << reported;
}

}  // namespace
}  // namespace weft::batch_ramp_run_test
