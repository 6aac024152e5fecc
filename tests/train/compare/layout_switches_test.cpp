// The parts that compare_layouts() is made of: what can be switched off, where batches come from, how far weights are apart.
#include "weft/train/compare/layout_switches.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "weft/train/compare/batch_source.h"
#include "weft/train/compare/weight_difference.h"

namespace weft::layout_switches_test {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names(const LayoutSettings& settings) {
  std::vector<std::string> result;
  for (const LayoutSwitch& part : layout_switches(settings)) result.push_back(part.name);
  return result;
}

Schedule made_beforehand() {
  Schedule schedule;
  schedule.name = "x";
  return schedule;
}

LayoutSettings full() {
  return {
      .axes = {{"pp", 2}, {"dp", 1}, {"shard", 4}, {"cp", 2}, {"tp", 2}},
      .options = {.layout = {.pipeline = {.schedule = "interleaved", .first_block = {0, 1, 2, 3}, .given = made_beforehand()},
                             .shard_level = ShardLevel::parameters,
                             .inner_shards = 2,
                             .recompute_every = 1,
                             .loss_chunk = 64,
                             .sequence_parallel = true,
                             .attention_over = ContextMethod::ring,
                             .offload_optimizer = Offload::host,
                             .offload_parameters = Offload::disk,
                             .offload_activations = Offload::host}}};
}

TEST(LayoutSwitches, AreAxesThenChoices) {
  EXPECT_THAT(
      names(full()),
      ElementsAre("pp", "shard", "cp", "tp", "layout.schedule", "layout.sequence_parallel", "layout.context_attention",
                  "layout.loss_chunk", "layout.shard_level", "layout.inner_shards", "layout.prefetch", "layout.recompute",
                  "layout.offload_optimizer", "layout.offload_parameters", "layout.offload_activations"));
  EXPECT_THAT(names({.axes = {{"dp", 1}}, .options = {}}), ElementsAre());
  EXPECT_EQ(full().text(), "pp 2 x shard 4 x cp 2 x tp 2");
  EXPECT_EQ(full().ranks(), 32);
}

// Any combination can be switched off; the rest is consistent, and what is off is no longer listed as on.
TEST(LayoutSwitches, OffTakesWithItWhatCannotBeWithoutIt) {
  const std::vector<LayoutSwitch> all = layout_switches(full());
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].name);
    const LayoutSettings rest = without(full(), {all[i]});
    EXPECT_NO_THROW(check_layout(rest.options.layout, false));
    EXPECT_THAT(names(rest), ::testing::Not(::testing::Contains(all[i].name)));
  }
  const LayoutSettings none = without(full(), all);
  EXPECT_THAT(names(none), ElementsAre());
  EXPECT_EQ(none.ranks(), 1);
  EXPECT_EQ(none.text(), "one device");
}

// A choice that an axis gives its meaning goes with it.
TEST(LayoutSwitches, ChoicesOfAnAxisGoWithIt) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"pp", "layout.schedule"}, {"tp", "layout.sequence_parallel"}, {"cp", "layout.context_attention"}};
  for (const auto& [axis, choice] : cases) {
    for (const LayoutSwitch& part : layout_switches(full())) {
      if (part.name != axis) continue;
      const LayoutSettings rest = without(full(), {part});
      EXPECT_THAT(names(rest), ::testing::Not(::testing::Contains(choice)));
      EXPECT_FALSE(rest.options.layout.sequence_parallel && part.name == "tp");
      EXPECT_FALSE(rest.options.layout.attention_over != ContextMethod::automatic && part.name == "cp");
    }
    LayoutSettings alone = full();
    for (AxisSize& size : alone.axes) size.size = size.name == axis ? 1 : size.size;
    EXPECT_THAT(names(alone), ::testing::Not(::testing::Contains(choice))) << "what means nothing is not on";
  }
}

// Without it the ranks are stages; without the ranks there is none.
TEST(LayoutSwitches, AMasterIsAChoiceOfThePipelineAxis) {
  const LayoutSettings master = {.axes = {{"pp", 4}}, .options = {.layout = {.master = true}}};
  EXPECT_THAT(names(master), ElementsAre("pp", "layout.style"));
  for (const LayoutSwitch& part : layout_switches(master)) {
    EXPECT_FALSE(without(master, {part}).options.layout.master) << part.name;
  }
}

TEST(LayoutSwitches, AGivenScheduleIsForItsMicroBatches) {
  const std::vector<LayoutSwitch> all = layout_switches(full());
  EXPECT_EQ(without(full(), {all[1]}).options.layout.pipeline.given.name, "") << "shard: a rank has more micro-batches";
  EXPECT_EQ(without(full(), {all[3]}).options.layout.pipeline.given.name, "x") << "tp: no matter";
  EXPECT_EQ(without(full(), {all[0]}).options.layout.pipeline.schedule, "1f1b") << "pp";
}

TEST(BatchSource, GivesEveryRankItsMicroBatchesInOrder) {
  const BatchSource source = whole_batches([](int64_t step) -> Batch {
    const at::Tensor samples = at::arange(8 * step, 8 * step + 8);
    return {{samples}, samples};
  });
  struct Case {
    int shard, num_shards;
    int64_t micro, first_step;
    std::vector<int64_t> firsts;
  };
  const Case cases[] = {
      {0, 1, 4, 0, {0, 4, 8, 12}}, {1, 2, 2, 0, {4, 6, 12, 14}}, {3, 4, 2, 0, {6, 14, 22}}, {0, 2, 4, 5, {40, 48}}};
  for (const Case& c : cases) {
    const Trainer::Next next = source(
        {.global_batch = 8, .micro_batch = c.micro, .shard = c.shard, .num_shards = c.num_shards, .first_step = c.first_step});
    for (const int64_t first : c.firsts) {
      const Batch batch = next();
      EXPECT_EQ(batch.target.size(0), c.micro);
      EXPECT_EQ(batch.target[0].item<int64_t>(), first);
      EXPECT_EQ(batch.inputs[0][0].item<int64_t>(), first);
      EXPECT_EQ(batch.first_sample, first);
    }
  }
}

TEST(WeightDifference, InUlpsAndOfTheLargestElement) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), next = std::nextafter(4.0f, 5.0f);
  struct Case {
    float a, b;
    int64_t ulps;
    double relative;
  };
  const Case cases[] = {{1.0f, 1.0f, 0, 0.0},  {4.0f, next, 1, 0x1p-21 / 4}, {4.0f, 2.0f, 1 << 23, 0.5},
                        {-1.0f, 1.0f, 0, 2.0}, {0.0f, -0.0f, 1, 0.0},        {nan, nan, 0, 0.0},
                        {nan, 1.0f, 0, 2.0},   {1e-45f, -1e-45f, 3, 2.0}};
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} {}", c.a, c.b));
    const WeightDifference forth = weight_difference(at::tensor({c.a}), at::tensor({c.b}));
    const WeightDifference back = weight_difference(at::tensor({c.b}), at::tensor({c.a}));
    if (c.ulps > 0 || c.relative == 0.0) {
      EXPECT_EQ(forth.ulps, c.ulps);
    }
    EXPECT_NEAR(forth.relative, c.relative, 1e-9);
    EXPECT_EQ(back.ulps, forth.ulps);
    EXPECT_EQ(back.relative, forth.relative);
  }
  const WeightDifference one = weight_difference(at::tensor({8.0f, 1.0f}), at::tensor({8.0f, 2.0f}));
  EXPECT_NEAR(one.relative, 1.0 / 8, 1e-9) << "the largest of all elements";
}

}  // namespace
}  // namespace weft::layout_switches_test
