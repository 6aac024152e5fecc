// Votes: numbers that ranks sum together with the losses of a step, without an extra collective.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/base/error.h"

namespace weft::votes_test {
namespace {

struct Case {
  const char* name;
  std::vector<AxisSize> mesh;
  bool noise_scale = false;
  bool master = false;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

struct Step {
  StepResult result;
  int64_t calls = 0;  ///< of this rank's groups
};

std::vector<Step> train(const World& world, const Case& c, const Votes& votes) {
  const Mesh mesh(world, c.mesh);
  Trainer trainer(mesh, job("split_gpt").model(), Sgd{},
                  {.global_batch = kGlobalBatch,
                   .micro_batch = 3,
                   .noise_scale = c.noise_scale,
                   .layout = {.master = c.master},
                   .votes = votes});
  trainer.start();
  const Axis data = mesh.join({"dp", "shard"});
  const int64_t share = kGlobalBatch / data.size();
  const auto calls = [&trainer] {
    int64_t count = 0;
    for (const Group& group : trainer.groups()) count += group.traffic().calls;
    return count;
  };
  std::vector<Step> steps;
  for (int step = 0; step < 3; ++step) {
    const int64_t before = calls();
    const StepResult result = trainer.step(slice(job("split_gpt").batch_of(step), data.index * share, share));
    steps.push_back({result, calls() - before});
  }
  return steps;
}

class VotesTest : public ::testing::TestWithParam<Case> {};

TEST_P(VotesTest, AreThoseOfAllRanksAndChangeNothingElse) {
  const Case& c = GetParam();
  int ranks = 1;
  for (const AxisSize& axis : c.mesh) ranks *= axis.size;
  test::run_ranks(ranks, [&](World world) {
    const std::vector<Step> without = train(world, c, {});
    double cast = 0.0;
    const std::vector<Step> with = train(world, c, {.count = 2, .of_rank = [&] {
                                                      return std::vector<double>{1.0, (cast += 1.0) * world.rank()};
                                                    }});
    for (int step = 0; step < 3; ++step) {
      const StepResult& result = with[step].result;
      EXPECT_EQ(result.votes, (std::vector<double>{1.0 * ranks, (step + 1.0) * ranks * (ranks - 1) / 2}));
      EXPECT_EQ(result.loss, without[step].result.loss);
      EXPECT_EQ(result.count, without[step].result.count);
      EXPECT_EQ(result.small_squares, without[step].result.small_squares);
      EXPECT_EQ(with[step].calls, without[step].calls);
      EXPECT_TRUE(without[step].result.votes.empty());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Meshes, VotesTest,
                         ::testing::Values(Case{"alone", {{"dp", 1}}}, Case{"dp2", {{"dp", 2}}},
                                           Case{"dp2_tp2_noise_scale", {{"dp", 2}, {"tp", 2}}, true},
                                           Case{"cp2_tp2", {{"cp", 2}, {"tp", 2}}}, Case{"pp2_dp2", {{"pp", 2}, {"dp", 2}}},
                                           Case{"master2", {{"pp", 2}}, false, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Votes, AreAsManyAsWasSaid) {
  test::run_ranks(1, [](World world) {
    const Case alone{"alone", {{"dp", 1}}};
    EXPECT_EQ(test::refusal([&] { train(world, alone, {.count = -1}); }), "trainer: votes.count = -1; must be 0 to 4096");
    const Votes three{.count = 2, .of_rank = [] { return std::vector<double>(3); }};
    EXPECT_EQ(test::refusal([&] { train(world, alone, three); }),
              "step 1: Votes::of_rank gives 3 numbers, but Votes::count, the same on all ranks, is 2");
  });
}

}  // namespace
}  // namespace weft::votes_test
