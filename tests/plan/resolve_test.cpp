// Resolve: the layout of a recipe for a number of ranks, and its errors.
#include "weft/plan/layout/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "weft/base/error.h"

namespace weft::resolve_test {
namespace {

struct Batch {
  int64_t global;
  std::optional<int64_t> micro;
  int64_t slots;
};

Recipe recipe(const Batch& batch) {
  Recipe recipe;
  recipe.path = "r.toml";
  recipe.batch = {.global = batch.global, .micro = batch.micro};
  recipe.run.reproducible_slots = batch.slots;
  return recipe;
}

std::string error_of(const Recipe& recipe, int world) {
  try {
    resolve(recipe, world);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Resolve, MicroBatchesAndSlots) {
  struct Case {
    Batch batch;
    int world;
    int64_t micro;
    int micro_batches, slots;
  };
  const Case cases[] = {
      {{64, {}, 0}, 1, 64, 1, 1},    {{64, {}, 0}, 4, 16, 1, 1}, {{64, 8, 0}, 1, 8, 8, 1},   {{64, 8, 0}, 4, 8, 2, 1},
      {{12, {}, 0}, 3, 4, 1, 1},     {{64, {}, 4}, 1, 16, 4, 4}, {{64, {}, 4}, 2, 16, 2, 2}, {{64, {}, 4}, 4, 16, 1, 1},
      {{64, 8, 4}, 1, 8, 8, 4},      {{64, 8, 4}, 4, 8, 2, 1},   {{64, {}, 1}, 1, 64, 1, 1}, {{1, {}, 0}, 1, 1, 1, 1},
      {{8192, 1, 0}, 4096, 1, 2, 1},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << "global " << c.batch.global << ", slots " << c.batch.slots << ", world " << c.world);
    const ResolvedLayout layout = resolve(recipe(c.batch), c.world);
    EXPECT_EQ(layout.world, c.world);
    EXPECT_EQ(layout.dp, c.world);
    EXPECT_EQ(layout.micro_batch, c.micro);
    EXPECT_EQ(layout.micro_batches, c.micro_batches);
    EXPECT_EQ(layout.slots, c.slots);
    EXPECT_EQ(layout.micro_batch * layout.micro_batches * layout.data_ranks(), layout.global_batch);
    EXPECT_EQ(layout.micro_batches % layout.slots, 0);
  }
}

TEST(Resolve, SlotsMakeTheMicroBatchIndependentOfTheWorld) {
  for (const std::optional<int64_t> micro : {std::optional<int64_t>(), std::optional<int64_t>(4)}) {
    const int64_t alone = resolve(recipe({64, micro, 8}), 1).micro_batch;
    for (const int world : {2, 4, 8}) EXPECT_EQ(resolve(recipe({64, micro, 8}), world).micro_batch, alone);
  }
}

/// Both take the remaining ranks, and each rank's part, or the whole batch, is one micro-batch unless batch.micro says
/// otherwise.
TEST(Resolve, TextbookForms) {
  struct Case {
    const char* style;
    Batch batch;
    int64_t micro;
    int micro_batches, slots;
  };
  const Case cases[] = {{"master", {64, {}, 0}, 16, 4, 1}, {"master", {64, 8, 0}, 8, 8, 1}, {"master", {64, {}, 8}, 8, 8, 2},
                        {"naive", {64, {}, 0}, 64, 1, 1},  {"naive", {64, 8, 0}, 8, 8, 1},  {"naive", {64, {}, 8}, 8, 8, 8}};
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.style << " of " << c.micro);
    Recipe textbook = recipe(c.batch);
    textbook.layout.style = c.style;
    const ResolvedLayout layout = resolve(textbook, 4);
    const bool is_master = c.style == std::string("master");
    EXPECT_EQ(layout.pp, 4);
    EXPECT_EQ(layout.dp * layout.shard, 1);
    EXPECT_EQ(layout.options.master, is_master);
    EXPECT_EQ(layout.options.pipeline.schedule, is_master ? "1f1b" : "naive");
    EXPECT_EQ(layout.sample_ranks(), is_master ? 4 : 1);
    EXPECT_EQ(layout.micro_batch, c.micro);
    EXPECT_EQ(layout.micro_batches, c.micro_batches);
    EXPECT_EQ(layout.slots, c.slots);
    textbook.layout.dp = 2;
    EXPECT_EQ(resolve(textbook, 4).pp, 2);
    textbook.layout.pp = 4;
    EXPECT_NE(error_of(textbook, 4), "no error");
  }
  Recipe odd = recipe({66, {}, 0});
  odd.layout.style = "master";
  EXPECT_EQ(error_of(odd, 4),
            "r.toml: batch.global = 66 does not divide over 4 data-parallel ranks; the nearest that do: 64 or 68");
}

TEST(Resolve, BatchesThatDoNotDivide) {
  struct Case {
    Batch batch;
    int world;
    std::string error;
  };
  const Case cases[] = {
      {{64, {}, 0}, 3, "r.toml: batch.global = 64 does not divide over 3 data-parallel ranks; the nearest that do: 63 or 66"},
      {{64, 8, 0},
       3,
       "r.toml: batch.global = 64 does not divide over 3 data-parallel ranks times batch.micro = 8; the nearest that do: 48 or "
       "72"},
      {{999'999'999, {}, 0},
       2,
       "r.toml: batch.global = 999999999 does not divide over 2 data-parallel ranks; the nearest that do: 999999998 or "
       "1000000000"},
      {{1'000'000'000, {}, 0},
       3,
       "r.toml: batch.global = 1000000000 does not divide over 3 data-parallel ranks; the nearest that do: 999999999"},
      {{1'000'000'000, 999'999'999, 0},
       3,
       "r.toml: batch.global = 1000000000 does not divide over 3 data-parallel ranks times batch.micro = 999999999; nor does "
       "any allowed value: use a smaller batch.micro or fewer ranks"},
      {{2, {}, 0}, 4, "r.toml: batch.global = 2 does not divide over 4 data-parallel ranks; the nearest that do: 4"},
      {{60, {}, 8},
       2,
       "r.toml: batch.global = 60 does not divide over run.reproducible_slots = 8; the nearest that do: 56 or 64"},
      {{64, 12, 4},
       2,
       "r.toml: batch.global = 64 does not divide over run.reproducible_slots = 4 times batch.micro = 12; the nearest that do: "
       "48 or 96"},
      {{64, {}, 4},
       3,
       "r.toml: run.reproducible_slots = 4 does not divide over 3 data-parallel ranks; use a power of two of ranks, at most 4"},
      {{64, {}, 4},
       8,
       "r.toml: run.reproducible_slots = 4 does not divide over 8 data-parallel ranks; use a power of two of ranks, at most 4"},
  };
  for (const Case& c : cases) EXPECT_EQ(error_of(recipe(c.batch), c.world), c.error);
  // The value named as the nearest does divide.
  for (const int64_t global : {63, 66}) EXPECT_NO_THROW(resolve(recipe({global, {}, 0}), 3));
  for (const int64_t global : {48, 72}) EXPECT_NO_THROW(resolve(recipe({global, 8, 0}), 3));
}

TEST(Resolve, ShardTakesTheRanksThatRemain) {
  struct Case {
    const char* level;
    std::optional<int64_t> dp, shard;
    int world, expected_dp, expected_shard;
  };
  const std::vector<Case> cases = {{"none", {}, {}, 4, 4, 1},       {"none", {}, 2, 4, 2, 2},
                                   {"parameters", {}, {}, 4, 1, 4}, {"parameters", 2, {}, 4, 2, 2},
                                   {"gradients", {}, 2, 4, 2, 2},   {"optimizer", 2, 2, 4, 2, 2},
                                   {"optimizer", 4, {}, 4, 4, 1},   {"parameters", {}, {}, 1, 1, 1}};
  for (const Case& c : cases) {
    Recipe r = recipe({64, {}, 0});
    r.layout.shard_level = c.level;
    r.layout.dp = c.dp;
    r.layout.shard = c.shard;
    const ResolvedLayout layout = resolve(r, c.world);
    EXPECT_EQ(std::make_pair(layout.dp, layout.shard), std::make_pair(c.expected_dp, c.expected_shard)) << c.level;
    EXPECT_EQ(layout.data_ranks(), c.world);
  }
  Recipe r = recipe({60, {}, 0});
  r.layout.shard = 2;
  EXPECT_EQ(error_of(r, 5), "r.toml: layout.shard = 2 does not divide the 5 ranks (-n); use a multiple of 2 ranks");
}

TEST(Resolve, LayoutsThatExcludeEachOther) {
  Recipe r = recipe({64, {}, 0});
  r.layout.offload_parameters = "disk";
  EXPECT_THAT(error_of(r, 2), ::testing::HasSubstr("offload_parameters needs shard_level = \"parameters\""));
  r.layout.offload_parameters = "none";
  r.layout.offload_activations = "disk";
  EXPECT_THAT(error_of(r, 2), ::testing::HasSubstr("offload_activations needs recompute = \"blocks\""));
  r.layout.offload_activations = "none";
  r.layout.precision = "fp16";
  r.run.reproducible_slots = 4;
  EXPECT_THAT(error_of(r, 2), ::testing::HasSubstr("precision = \"fp16\" with run.reproducible_slots"));
}

TEST(Resolve, MeshesThatAreNotTheWorld) {
  Recipe r = recipe({64, {}, 0});
  r.layout.dp = 2;
  EXPECT_EQ(resolve(r, 2).dp, 2);
  EXPECT_EQ(
      error_of(r, 4),
      "r.toml: the mesh has 2 ranks (layout.dp = 2 x layout.shard = 1), but the world has 4 (-n); leave one of them out and it "
      "takes the ranks that remain");
  r.layout.dp.reset();
  r.layout.tp = 3;
  EXPECT_EQ(error_of(r, 4), "r.toml: layout.tp = 3 does not divide the 4 ranks (-n); use a multiple of 3 ranks");
  r.layout.tp = 2;
  EXPECT_EQ(resolve(r, 4).dp, 2) << "dp takes the ranks that remain";
  r.layout.cp = 2;
  EXPECT_EQ(error_of(r, 6),
            "r.toml: layout.cp = 2 x layout.tp = 2 does not divide the 6 ranks (-n); use a multiple of 4 ranks");
  const ResolvedLayout both = resolve(r, 8);
  EXPECT_EQ(both.dp * both.cp * both.tp, 8);
  EXPECT_EQ(both.data_ranks(), 2) << "ranks of cp and tp read the same samples";
  EXPECT_EQ(error_of(recipe({64, {}, 0}), 0), "-n 0: the number of ranks must be at least 1");
}

}  // namespace
}  // namespace weft::resolve_test
