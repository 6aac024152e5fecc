// layout.loss_chunk: the losses and gradients of whole logits within rounding, and the bits of one device in every layout.
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "tests/train/one_batch.h"
#include "weft/program/build/make_schedule.h"

namespace weft::loss_chunk_test {
namespace {

constexpr int kSteps = 2;
constexpr int64_t kChunk = 3;  // of samples of 8 tokens, so that the last is short
constexpr double kRelative = 1e-5;

using Change = std::function<void(Strategy&)>;

Strategy in_chunks(const std::string& name, int64_t chunk, const Change& change = {}) {
  Strategy strategy{.name = name, .micro_batch = 1, .slots = 4, .clip = 0.5};
  strategy.layout.loss_chunk = chunk;
  if (change) change(strategy);
  return strategy;
}

/// What the call throws on a rank; empty if nothing.
std::string why_not(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

struct Row {
  std::string name;
  int ranks = 1;
  Change change = {};
};

std::vector<Row> layouts() {
  std::vector<Row> all = {{"dp", 2}, {"dp", 4}, {"gloo", 2, [](Strategy& s) { s.backend = BackendKind::gloo; }}};
  for (const ShardLevel level : {ShardLevel::gradients, ShardLevel::parameters}) {
    all.push_back({std::string(name(level)), 2, [level](Strategy& s) {
                     s.spread = Spread::shard;
                     s.layout.shard_level = level;
                   }});
  }
  all.push_back({"hybrid", 4, [](Strategy& s) {
                   s.spread = Spread::hybrid;
                   s.layout.shard_level = ShardLevel::parameters;
                   s.layout.recompute_every = 1;
                 }});
  for (const std::string& schedule : schedule_names()) {
    if (schedule == "csv") continue;
    all.push_back({schedule, 2, [schedule](Strategy& s) {
                     s.pp = 2;
                     s.layout.pipeline.schedule = schedule;
                   }});
  }
  all.push_back({"zb-h1, parameters", 4, [](Strategy& s) {
                   s.pp = 2;
                   s.spread = Spread::shard;
                   s.layout.shard_level = ShardLevel::parameters;
                   s.layout.pipeline.schedule = "zb-h1";
                 }});
  return all;
}

TEST(LossChunk, HasTheBitsOfOneDeviceInEveryLayout) {
  for (const char* name : {"deep_gpt", "deep_llama"}) {
    const Trained one = train_ranks(job(name), in_chunks("one", kChunk), 1, AdamW{}, kSteps);
    for (const Row& row : layouts()) {
      const Strategy strategy = in_chunks(row.name, kChunk, row.change);
      if (name == std::string("deep_llama") && strategy.pp == 1) continue;
      expect_equal(train_ranks(job(name), strategy, row.ranks, AdamW{}, kSteps), one,
                   fmt::format("{}, {} on {}", name, row.name, row.ranks));
    }
  }
  const Trained tied = train_ranks(job("deep_tied_gpt"), in_chunks("one", kChunk), 1, AdamW{}, kSteps);
  for (const Row& row : layouts()) {
    Strategy strategy = in_chunks(row.name, kChunk, row.change);
    if (strategy.pp > 1) continue;  // sums the two gradients of the weights in another order
    expect_equal(train_ranks(job("deep_tied_gpt"), strategy, row.ranks, AdamW{}, kSteps), tied, "tied, " + row.name);
  }
}

struct Rounded {
  const char* name;
  const char* job;
  int64_t chunk;
  int ranks = 1;
  Change change = {};
};

TEST(LossChunk, RoundsAsWholeLogitsDo) {
  const auto shares = [](int tp, int cp, bool sequence) {
    return [=](Strategy& s) {
      s.tp = tp;
      s.cp = cp;
      s.slots = 0;
      s.layout.sequence_parallel = sequence;
    };
  };
  const Rounded rows[] = {
      {"one token at a time", "deep_gpt", 1},
      {"several samples at a time", "deep_llama", 20, 1,
       [](Strategy& s) {
         s.micro_batch = 4;
         s.slots = 0;
       }},
      {"more tokens than there are", "deep_gpt", 1000},
      {"tied", "deep_tied_gpt", kChunk, 2, [](Strategy& s) { s.pp = 2; }},
      {"bf16", "deep_llama", kChunk, 2, [](Strategy& s) { s.layout.precision = Precision::bf16; }},
      {"fp16", "deep_gpt", kChunk, 2,
       [](Strategy& s) {
         s.slots = 0;
         s.layout.precision = Precision::fp16;
       }},
      {"tp", "split_gpt", kChunk, 2, shares(2, 1, false)},
      {"tp of four", "split_llama", kChunk, 4, shares(4, 1, false)},
      {"tp and sequence", "split_llama", kChunk, 2, shares(2, 1, true)},
      {"cp", "split_gpt", kChunk, 2, shares(1, 2, false)},
      {"cp and tp", "split_llama", kChunk, 4, shares(2, 2, true)},
  };
  for (const Rounded& row : rows) {
    SCOPED_TRACE(row.name);
    const Strategy chunks = in_chunks(row.name, row.chunk, row.change);
    Strategy whole = chunks;
    whole.layout.loss_chunk = 0;
    const Sgd sgd = sgd_of(chunks);
    const double tolerance = chunks.layout.precision == Precision::fp32 ? kRelative : 2e-2;
    expect_close(train_ranks(job(row.job), chunks, row.ranks, sgd, kSteps),
                 train_ranks(job(row.job), whole, row.ranks, sgd, kSteps), tolerance, /*values=*/true);
  }
}

TEST(LossChunk, IsReproducibleOverTp) {
  const auto parts = [](int tp, int64_t chunk) {
    Strategy strategy = in_chunks("parts", chunk);
    strategy.tp = tp;
    strategy.reproducible_tp = 2;
    strategy.micro_batch = 8;
    strategy.slots = 0;
    return strategy;
  };
  const Trained one = train_ranks(job("split_gpt"), parts(1, 32), 1, AdamW{}, kSteps);
  expect_equal(train_ranks(job("split_gpt"), parts(2, 32), 2, AdamW{}, kSteps), one, "tp");
  const auto odd = [&] { train_ranks(job("split_gpt"), parts(1, 24), 1, AdamW{}, 1); };
  EXPECT_THAT(why_not(odd), testing::HasSubstr("layout.loss_chunk = 24 with run.reproducible_tp"));
}

/// Evaluations have the losses and hits of whole logits; predictions are the logits.
TEST(LossChunk, EvaluatesAndPredicts) {
  struct Seen {
    EvaluationResult result;
    at::Tensor outputs;
  };
  const auto seen = [](int64_t chunk, int dp, int pp, int tp, const char* name) {
    Seen of_first;
    test::run_ranks(dp * pp * tp, [&](World world) {
      const Mesh mesh(world, {{"pp", pp}, {"dp", dp}, {"tp", tp}});
      Trainer trainer(mesh, job(name).model(), AdamW{},
                      {.global_batch = job(name).global_batch, .micro_batch = 2, .layout = {.loss_chunk = chunk}});
      EvaluationLoader loader(std::make_shared<OneBatch>(job(name).batch_of(7)), 2, mesh.join({"dp"}).index, dp);
      const EvaluationResult result = trainer.evaluate(loader);
      const at::Tensor outputs = trainer.predict(loader, {.gathered = true})[0];
      if (world.rank() == 0) of_first = {result, outputs};
    });
    return of_first;
  };
  for (const auto& [dp, pp, tp, name] : {std::tuple(1, 1, 1, "deep_gpt"), std::tuple(2, 1, 1, "deep_llama"),
                                         std::tuple(1, 2, 1, "deep_tied_gpt"), std::tuple(1, 1, 2, "split_llama")}) {
    SCOPED_TRACE(name);
    const Seen chunks = seen(kChunk, dp, pp, tp, name), whole = seen(0, dp, pp, tp, name);
    EXPECT_NEAR(chunks.result.loss, whole.result.loss, kRelative * whole.result.loss);
    EXPECT_EQ(chunks.result.count, whole.result.count);
    EXPECT_EQ(chunks.result.hits, whole.result.hits);
    EXPECT_TRUE(at::equal(chunks.outputs, whole.outputs));
  }
}

TEST(LossChunk, RefusesWhatCannot) {
  const auto why = [](const char* name, int64_t chunk) {
    return why_not([&] { train_ranks(job(name), in_chunks("refused", chunk), 1, AdamW{}, 1); });
  };
  EXPECT_THAT(why("mlp", kChunk), testing::HasSubstr("layout.loss_chunk = 3: model 'mlp' makes its logits whole"));
  EXPECT_THAT(why("deep_gpt", -1), testing::HasSubstr("loss_chunk = -1"));
}

}  // namespace
}  // namespace weft::loss_chunk_test
