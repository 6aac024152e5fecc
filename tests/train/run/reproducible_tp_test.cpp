// run.reproducible_tp: layers in fixed parts train to the same bits for any tp, alone and with the other axes; and the
// combinations it rejects.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/base/error.h"
#include "weft/models/gpt.h"
#include "weft/models/vision.h"

namespace weft::reproducible_tp_test {
namespace {

constexpr int kSteps = 2;
constexpr int kParts = 4;

/// A mesh, and what else may change.
struct Shape {
  const char* name = "";
  int ranks = 1;
  int tp = 1, pp = 1;
  ShardLevel level = ShardLevel::none;  ///< over the ranks that the other axes leave; none: they are replicas
  bool recompute = false;
  const char* schedule = "1f1b";
  BackendKind backend = BackendKind::shm;
};

Strategy strategy_of(const Shape& shape, int slots = 0) {
  Strategy strategy{.name = shape.name,
                    .micro_batch = 2,
                    .slots = slots,
                    .reproducible_tp = kParts,
                    .backend = shape.backend,
                    .clip = 0.05,
                    .spread = shape.level == ShardLevel::none ? Spread::dp : Spread::shard,
                    .pp = shape.pp,
                    .tp = shape.tp};
  strategy.layout.shard_level = shape.level;
  strategy.layout.pipeline.schedule = shape.schedule;
  strategy.layout.recompute_every = shape.recompute ? 1 : 0;
  return strategy;
}

Trained train(const std::string& name, const Shape& shape, const OptimizerOptions& optimizer, int slots) {
  return train_ranks(job(name), strategy_of(shape, slots), shape.ranks, optimizer, kSteps);
}

/// The trained case.
struct Case {
  const char* job;
  OptimizerOptions optimizer;
};

void expect_same_bits(const Case& c, int slots, const Shape& alone, const std::vector<Shape>& others) {
  SCOPED_TRACE(c.job);
  const Trained expected = train(c.job, alone, c.optimizer, slots);
  for (const Shape& other : others) expect_equal(train(c.job, other, c.optimizer, slots), expected, other.name);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {{"split_gpt", AdamW{}}, {"split_llama", Sgd{.momentum = 0.9}}};
  return all;
}

TEST(ReproducibleTp, AnyTpGivesTheSameBits) {
  const Shape one{.name = "one device"}, two{.name = "tp 2", .ranks = 2, .tp = 2}, four{.name = "tp 4", .ranks = 4, .tp = 4};
  const Shape by_gloo{.name = "tp 4 by Gloo", .ranks = 4, .tp = 4, .backend = BackendKind::gloo};
  for (const Case& c : cases()) expect_same_bits(c, /*slots=*/0, one, {two, four, by_gloo});
  expect_same_bits({"split_gpt", Sgd{}}, /*slots=*/0, one, {two, four});
  expect_same_bits({"split_llama", AdamW{}}, /*slots=*/0, one, {two, four});
}

TEST(ReproducibleTp, OtherAxesAddNoDifference) {
  for (const Case& c : cases()) {
    expect_same_bits(
        c, /*slots=*/4, {.name = "one device"},
        {{.name = "tp 2 x dp 2", .ranks = 4, .tp = 2},
         {.name = "dp 4", .ranks = 4},
         {.name = "tp 2 x shard 2, gradients", .ranks = 4, .tp = 2, .level = ShardLevel::gradients},
         {.name = "tp 2 x shard 2, parameters", .ranks = 4, .tp = 2, .level = ShardLevel::parameters, .recompute = true},
         {.name = "pp 2 x tp 2", .ranks = 4, .tp = 2, .pp = 2},
         {.name = "pp 2 x tp 4, zb-h1", .ranks = 8, .tp = 4, .pp = 2, .schedule = "zb-h1"}});
  }
}

/// Also with the embeddings' gradient from both ends.
TEST(ReproducibleTp, TiedEmbeddings) {
  const Job tied{
      "tied",
      [] { return gpt({.layers = 1, .heads = 4, .width = 32, .context = 8, .vocabulary = 13, .tied_embeddings = true}); },
      job("split_gpt").batch_of, 16};
  const Trained expected = train_ranks(tied, strategy_of({}), 1, AdamW{}, kSteps);
  for (const int tp : {2, 4}) {
    expect_equal(train_ranks(tied, strategy_of({.ranks = tp, .tp = tp}), tp, AdamW{}, kSteps), expected,
                 fmt::format("tp {}", tp));
  }
}

/// Parts affect only rounding: training matches training without them.
TEST(ReproducibleTp, EqualsOneDeviceWithoutParts) {
  for (const char* name : {"split_gpt", "split_llama"}) expect_parity(job(name), strategy_of({.ranks = 2, .tp = 2}), 2, kSteps);
}

TEST(ReproducibleTp, RefusesWhatItDoesNotGoWith) {
  struct Refused {
    TrainerOptions options;
    std::string error;
    int tp = 1, cp = 1;
    std::function<Model()> model = [] { return gpt({.layers = 1, .heads = 4, .width = 32, .context = 8, .vocabulary = 13}); };
  };
  const std::vector<Refused> cases = {
      {{.reproducible_tp = 3}, "run.reproducible_tp = 3 must be a power of two; the nearest are 2 and 4"},
      {{.reproducible_tp = 2},
       "run.reproducible_tp = 2: layout.tp = 4 does not divide it; use a power of two for tp, at most 2",
       4},
      {{.reproducible_tp = 8}, "layer h.0.attn.c_attn: run.reproducible_tp = 8 does not divide its 4 heads; it may be 1, 2, 4"},
      {{.reproducible_tp = 4, .layout = {.sequence_parallel = true}}, "with layout.sequence_parallel", 2},
      {{.reproducible_tp = 4}, "run.reproducible_tp = 4 with layout.cp = 2", 1, 2},
      {{.reproducible_tp = 2},
       "layer stage1.conv: run.reproducible_tp divides only linear layers and embeddings",
       1,
       1,
       [] { return cnn({.width = 8}); }},
      {{.layout = {.tp_chunks = -3}}, "layout: tp_chunks = -3; must be at least 1"},
      {{.reproducible_tp = 4, .layout = {.precision = Precision::bf16}}, "use layout.precision = \"fp32\""},
      {{.reproducible_tp = 4},
       "has no layers that ranks share",
       1,
       1,
       [] {
         Model plain = mlp({.inputs = 144, .width = 24, .layers = 2});
         plain.splits.clear();
         return plain;
       }},
  };
  for (const Refused& c : cases) {
    test::run_ranks(c.cp * c.tp, [&](World world) {
      try {
        const Trainer trainer(Mesh(world, {{"cp", c.cp}, {"tp", c.tp}}), c.model(), Sgd{}, c.options);
        ADD_FAILURE() << "not refused: " << c.error;
      } catch (const InputError& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr(c.error));
      }
    });
  }
}

/// Three tokens a micro-batch leave pieces of 3 x 24 elements.
TEST(ReproducibleTp, RefusesPiecesThatFillNoVector) {
  test::run_ranks(1, [&](World world) {
    Trainer trainer(Mesh(world, {{"tp", 1}}), gpt({.layers = 1, .heads = 4, .width = 32, .context = 8, .vocabulary = 13}),
                    Sgd{}, {.reproducible_tp = 4});
    const Batch batch = slice(job("split_gpt").batch_of(0), 0, 1);
    try {
      trainer.step({{batch.inputs[0].narrow(1, 0, 3)}, batch.target.narrow(1, 0, 3), 0});
      ADD_FAILURE() << "not refused";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(),
                  ::testing::HasSubstr("layer h.0.attn.c_attn: run.reproducible_tp makes pieces of 3 rows of 24"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("use micro-batches with a multiple of 4 tokens in total"));
    }
  });
}

}  // namespace
}  // namespace weft::reproducible_tp_test
