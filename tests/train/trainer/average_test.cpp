// The average of the weights: equal to one device in plain LibTorch, with the same bits in every layout; swapped in for
// evaluation and back; saved and loaded; and its cost.
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "tests/train/one_batch.h"
#include "tests/train/weights_of.h"
#include "weft/base/error.h"
#include "weft/checkpoint/format/compare_checkpoints.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/data/evaluation_loader.h"

namespace weft::average_test {
namespace {

using test::refusal;
using test::TempFolder;

constexpr int kSteps = 3;
constexpr WeightAverage kAverage{.decay = 0.75};

struct Cell {
  const char* name;
  int ranks = 1;
  Spread spread = Spread::dp;
  ShardLevel level = ShardLevel::none;
  void (*change)(Strategy& strategy) = [](Strategy&) {};
};

std::ostream& operator<<(std::ostream& out, const Cell& cell) { return out << cell.name; }

void offload(Strategy& s) {
  s.layout.offload_optimizer = Offload::disk;
  if (s.layout.shard_level == ShardLevel::parameters) s.layout.offload_parameters = Offload::host;
}

const std::vector<Cell>& cells() {
  static const std::vector<Cell> all = {
      {"dp", 2},
      {"offloaded_dp", 2, Spread::dp, ShardLevel::none, offload},
      {"zero1_gloo", 2, Spread::shard, ShardLevel::optimizer, [](Strategy& s) { s.backend = BackendKind::gloo; }},
      {"zero2", 2, Spread::shard, ShardLevel::gradients},
      {"zero3", 4, Spread::shard, ShardLevel::parameters},
      {"offloaded_zero3", 2, Spread::shard, ShardLevel::parameters, offload},
      {"hybrid", 4, Spread::hybrid, ShardLevel::parameters},
      {"pipeline", 2, Spread::dp, ShardLevel::none,
       [](Strategy& s) {
         s.pp = 2;
         s.layout.pipeline.schedule = "zb-h1";
       }},
      {"pipeline_zero2", 4, Spread::shard, ShardLevel::gradients, [](Strategy& s) { s.pp = 2; }},
  };
  return all;
}

Strategy strategy_of(const Cell& cell, const WeightAverage& average = kAverage) {
  Strategy strategy{.name = cell.name, .micro_batch = 3, .clip = 0.5, .spread = cell.spread, .average = average};
  strategy.layout.shard_level = cell.level;
  cell.change(strategy);
  return strategy;
}

class AverageParity : public ::testing::TestWithParam<std::tuple<const char*, Cell>> {};

TEST_P(AverageParity, EqualsOneDevice) {
  const auto& [name, cell] = GetParam();
  for (const bool warmup : {true, false}) {
    expect_parity(job(name), strategy_of(cell, {.decay = 0.75, .warmup = warmup}), cell.ranks, kSteps);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, AverageParity,
                         testing::Combine(testing::Values("gpt", "tied_gpt", "cnn"), testing::ValuesIn(cells())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
                         });

class AverageBits : public ::testing::TestWithParam<std::tuple<const char*, Precision>> {};

/// Batch statistics depend on the micro-batches of a pipeline: the whole table.
TEST_P(AverageBits, AreThoseOfOneDevice) {
  const auto& [name, precision] = GetParam();
  const auto train = [&, name = name, precision = precision](const Cell& cell) {
    Strategy strategy = strategy_of(cell);
    strategy.slots = 4;
    strategy.layout.precision = precision;
    return train_ranks(job(name), strategy, cell.ranks, AdamW{.lr = 0.01}, kSteps);
  };
  const Trained one = train({"one"});
  ASSERT_FALSE(one.averages.empty());
  for (const Cell& cell : cells()) expect_equal(train(cell), one, cell.name);
}

INSTANTIATE_TEST_SUITE_P(Table, AverageBits,
                         testing::Combine(testing::Values("gpt", "cnn"), testing::Values(Precision::fp32, Precision::bf16)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::string(name(std::get<1>(info.param)));
                         });

TEST(Average, IsWholeWhereLayersAreSplit) {
  const Trained one =
      train_ranks(job("split_llama"), {.learning_rate = 0.01, .average = kAverage}, 1, Sgd{.momentum = 0.9}, kSteps);
  for (const ShardLevel level : {ShardLevel::none, ShardLevel::parameters}) {
    Strategy split = strategy_of({"tp", 4, level == ShardLevel::none ? Spread::dp : Spread::shard, level});
    split = {.spread = split.spread, .learning_rate = 0.01, .tp = 2, .layout = split.layout, .average = kAverage};
    expect_close(train_ranks(job("split_llama"), split, 4, Sgd{.momentum = 0.9}, kSteps), one, 1e-4, /*values=*/true);
  }
}

using Values = test::Weights;
using test::weights_of;

Values average_of(Trainer& trainer) {
  Values values;
  trainer.with_average([&] { values = weights_of(trainer); });
  return values;
}

std::vector<NamedTensor> named(const Values& values) {
  std::vector<NamedTensor> tensors;
  tensors.reserve(values.size());
  for (const auto& [name, value] : values) tensors.push_back({name, value});
  return tensors;
}

bool same(const Values& a, const Values& b) {
  return a.size() == b.size() &&
         std::all_of(a.begin(), a.end(), [&b](const auto& entry) { return at::equal(b.at(entry.first), entry.second); });
}

TrainerOptions options(const LayoutOptions& layout, const WeightAverage& average = kAverage) {
  return {.global_batch = kGlobalBatch, .micro_batch = 3, .average = average, .layout = layout};
}

struct Place {
  const char* name;
  std::vector<AxisSize> axes;
  LayoutOptions layout;

  int ranks() const {
    int ranks = 1;
    for (const AxisSize& axis : axes) ranks *= axis.size;
    return ranks;
  }
};

std::vector<Place> places() {
  const ShardLevel parameters = ShardLevel::parameters;
  return {{"alone", {{"dp", 1}}, {}},
          {"bf16 replicas", {{"dp", 2}}, {.precision = Precision::bf16}},
          {"zero 1", {{"shard", 2}}, {.shard_level = ShardLevel::optimizer}},
          {"bf16 zero 2", {{"shard", 2}}, {.shard_level = ShardLevel::gradients, .precision = Precision::bf16}},
          {"bf16 zero 3", {{"shard", 2}}, {.shard_level = parameters, .precision = Precision::bf16}},
          {"kept whole", {{"shard", 2}}, {.shard_level = parameters, .reshard_after_forward = false}},
          {"pipeline", {{"pp", 2}, {"shard", 2}}, {.shard_level = ShardLevel::optimizer}},
          {"tp", {{"tp", 2}}, {}},
          {"away",
           {{"shard", 2}},
           {.shard_level = parameters, .offload_optimizer = Offload::disk, .offload_parameters = Offload::disk}}};
}

/// A rank's trainer, and the batches and evaluations that are its own.
struct Rank {
  Rank(const World& world, const Place& place, const char* name, const TrainerOptions& options)
      : job(weft::job(name)),
        mesh(world, place.axes),
        data(mesh.join({"dp", "shard"})),
        trainer(mesh, job.model(), AdamW{.lr = 0.01}, options),
        evaluation(std::make_shared<OneBatch>(job.batch_of(1000)), 2, data.index, data.size()) {}

  StepResult step(int64_t step) {
    const int64_t share = job.global_batch / data.size();
    return trainer.step(slice(job.batch_of(step), data.index * share, share));
  }
  double evaluate() { return trainer.evaluate(evaluation).loss; }
  double evaluate_average() {
    double loss = 0.0;
    trainer.with_average([&] { loss = evaluate(); });
    return loss;
  }

  const Job& job;
  Mesh mesh;
  Axis data;
  Trainer trainer;
  EvaluationLoader evaluation;
};

/// The average is evaluated, and training continues as if nothing had happened.
TEST(Average, IsEvaluatedAndTheWeightsComeBack) {
  const TempFolder folder;
  for (const char* name : {"gpt", "cnn"}) {
    for (const Place& place : places()) {
      if (place.axes.front().name == "tp" && name == std::string("cnn")) continue;
      SCOPED_TRACE(std::string(name) + ", " + place.name);
      const std::string file = folder.file("average.safetensors");
      test::run_ranks(place.ranks(), [&](World world) {
        Rank plain(world, place, name, options(place.layout)), evaluated(world, place, name, options(place.layout));
        for (int step = 0; step < kSteps; ++step) {
          EXPECT_EQ(plain.step(step).loss, evaluated.step(step).loss);
          const double before = evaluated.evaluate();
          EXPECT_NE(evaluated.evaluate_average(), before);
          EXPECT_EQ(evaluated.evaluate(), before);
        }
        EXPECT_TRUE(same(weights_of(plain.trainer), weights_of(evaluated.trainer)));
        const Values average = average_of(plain.trainer);
        EXPECT_TRUE(same(average, average_of(evaluated.trainer)));
        if (world.rank() == 0) save_safetensors(file, named(average));
        plain.trainer.world_group().barrier("saved").wait();
        Rank other(world, place, name, options(place.layout, {}));
        other.trainer.load_weights(file);
        EXPECT_EQ(other.evaluate(), evaluated.evaluate_average());
      });
    }
  }
}

/// A loss that is not finite ends the trainer, as without an average; its share of the state is unchanged.
TEST(Average, AnEvaluationThatFailsLeavesTheWeights) {
  for (const Place& place : places()) {
    if (place.layout.offload_parameters != Offload::none || place.axes.front().name == "tp") continue;
    test::run_ranks(place.ranks(), [&](World world) {
      Rank rank(world, place, "cnn", options(place.layout));
      rank.step(0);
      FlatModel& model = rank.trainer.model();
      std::vector<at::Tensor> before;
      for (int b = 0; b < model.num_blocks(); ++b) {
        if (model.holds(b)) before.push_back(model.flat(b).master.clone());
      }
      Batch bad = job("cnn").batch_of(0);
      bad.inputs[0] = at::full(bad.inputs[0].sizes(), std::numeric_limits<float>::quiet_NaN());
      const Axis data = Mesh(world, place.axes).join({"dp", "shard"});
      EvaluationLoader loader(std::make_shared<OneBatch>(bad), 2, data.index, data.size());
      EXPECT_THROW(rank.trainer.with_average([&] { rank.trainer.evaluate(loader); }), NumericError) << place.name;
      size_t i = 0;
      for (int b = 0; b < model.num_blocks(); ++b) {
        if (!model.holds(b)) continue;
        EXPECT_TRUE(at::equal(model.flat(b).master, before[i])) << place.name << ", block " << b;
        const at::Tensor shard = model.flat(b).shard;
        EXPECT_TRUE(at::equal(shard, before[i++].to(shard.scalar_type()))) << place.name << ", block " << b;
      }
      EXPECT_THROW(rank.step(1), Error) << "as after any evaluation that failed";
    });
  }
}

/// The caller's exception passes through on every rank: training continues to the same bits.
TEST(Average, WhatACallThrowsLeavesTheWeights) {
  for (const Place& place : places()) {
    if (place.axes.front().name == "tp") continue;
    test::run_ranks(place.ranks(), [&](World world) {
      Rank plain(world, place, "cnn", options(place.layout)), other(world, place, "cnn", options(place.layout));
      for (int step = 0; step < 2; ++step) {
        EXPECT_EQ(plain.step(step).loss, other.step(step).loss);
        EXPECT_THROW(other.trainer.with_average([] { throw std::runtime_error("enough"); }), std::runtime_error);
      }
      EXPECT_EQ(plain.evaluate(), other.evaluate()) << place.name;
      EXPECT_TRUE(same(weights_of(plain.trainer), weights_of(other.trainer))) << place.name;
    });
  }
}

TEST(Average, ASkippedStepIsNoneOfIt) {
  Rank rank(World(), {"", {{"dp", 1}}, {}}, "mlp", options({.precision = Precision::fp16}));
  const Values start = average_of(rank.trainer);
  Batch batch = job("mlp").batch_of(0);
  batch.inputs[0].mul_(300.0);
  ASSERT_TRUE(rank.trainer.step(batch).skipped);
  EXPECT_TRUE(same(average_of(rank.trainer), start));
  // The first update that it takes in is the first of the warm-up: nine tenths.
  rank.step(1);
  const Values weights = weights_of(rank.trainer), average = average_of(rank.trainer);
  for (const auto& [name, value] : average) {
    EXPECT_TRUE(at::equal(value, start.at(name).lerp(weights.at(name), 0.9))) << name;
  }
}

TEST(Average, OfFrozenWeightsEqualsThem) {
  Strategy strategy = strategy_of({"zero3", 2, Spread::shard, ShardLevel::parameters});
  strategy.parameters = {{.names = "h.0.*", .frozen = true}};
  const Trained trained = train_ranks(job("gpt"), strategy, 2, AdamW{.lr = 0.01}, kSteps);
  ASSERT_EQ(trained.averages.size(), trained.values.size());
  for (size_t i = 0; i < trained.values.size(); ++i) {
    const auto& [name, value] = trained.values[i];
    EXPECT_EQ(at::equal(trained.averages[i].second, value), name.starts_with("h.0.")) << name;
  }
}

/// Stopped in one layout and resumed in another, in the middle of the warm-up: the bits of an uninterrupted run.
TEST(Average, ResumesFromACheckpointInAnyLayout) {
  const WeightAverage average{.decay = 0.9};
  for (const char* name : {"gpt", "cnn"}) {
    const TempFolder folder;
    std::vector<Stretch> stretches;
    for (const Cell& cell : cells()) {
      stretches.push_back({strategy_of(cell, average), cell.ranks, static_cast<int>(stretches.size() + 1)});
    }
    for (Stretch& stretch : stretches) stretch.strategy.slots = 4;
    Strategy alone = strategy_of({"one"}, average);
    alone.slots = 4;
    const int steps = stretches.back().until;
    const Trained whole = train_ranks(job(name), alone, 1, AdamW{.lr = 0.01}, steps);
    expect_equal(train_in_stretches(job(name), stretches, AdamW{.lr = 0.01}, folder.path().string()), whole, name);
  }
}

TEST(Average, BeginsFromTheWeightsOfACheckpointWithoutAndSaysSo) {
  const TempFolder folder;
  const Place place{"zero3", {{"shard", 2}}, {.shard_level = ShardLevel::parameters}};
  test::run_ranks(2, [&](World world) {
    Rank without(world, place, "cnn", options(place.layout, {})), with(world, place, "cnn", options(place.layout));
    for (int step = 0; step < 2; ++step) without.step(step);
    without.trainer.save(folder.file("without"));
    with.step(0);
    const LoadReport report = with.trainer.load(folder.file("without"));
    ASSERT_EQ(report.skipped.size(), 1U);
    EXPECT_NE(report.skipped[0].find("it has no average of the weights; the average starts from its weights"),
              std::string::npos);
    const Values weights = weights_of(without.trainer);
    EXPECT_TRUE(same(average_of(with.trainer), weights));
    without.step(2);
    with.step(2);
    const Values after = weights_of(without.trainer);
    for (const auto& [name, value] : average_of(with.trainer)) {
      EXPECT_TRUE(at::equal(value, weights.at(name).lerp(after.at(name), 0.9))) << name << ": its warm-up begins too";
    }
    // A trainer without an average refuses a checkpoint with one, unless asked to leave it out.
    with.trainer.save(folder.file("with"));
    EXPECT_NE(refusal([&] {
                without.trainer.load(folder.file("with"));
              }).find("the checkpoint has an average of the weights ('ema/...'), which is not kept here"),
              std::string::npos);
    EXPECT_EQ(without.trainer.load(folder.file("with"), {.strict = false}).skipped.size(), 1U);
    EXPECT_TRUE(same(weights_of(without.trainer), after));
  });
  SavedCheckpoint with(folder.file("with")), without(folder.file("without"));
  EXPECT_EQ(read_average(with).size(), read_weights(with).size());
  EXPECT_NE(refusal([&] { read_average(without); }).find("it has no average of the weights"), std::string::npos);
}

/// Weights that others trained are where the average begins.
TEST(Average, BeginsFromWeightsThatAreLoaded) {
  const TempFolder folder;
  Rank one(World(), {"", {{"dp", 1}}, {}}, "cnn", options({})), other(World(), {"", {{"dp", 1}}, {}}, "cnn", options({}));
  one.step(0);
  one.trainer.save(folder.file("a"));
  for (int step = 0; step < 2; ++step) other.step(step);
  other.trainer.load_weights(folder.file("a"));
  EXPECT_TRUE(same(average_of(other.trainer), weights_of(one.trainer)));
  other.step(2);
  const Values weights = weights_of(other.trainer), start = weights_of(one.trainer);
  for (const auto& [name, value] : average_of(other.trainer)) {
    EXPECT_TRUE(at::equal(value, start.at(name).lerp(weights.at(name), 0.9))) << name;
  }
  // It stays as young as it is in a checkpoint of the third step.
  other.trainer.save(folder.file("b"));
  one.trainer.load(folder.file("b"));
  for (Rank* rank : {&one, &other}) rank->step(3);
  EXPECT_TRUE(same(average_of(one.trainer), average_of(other.trainer)));
}

/// Every element and number is read back, or the checkpoint is refused.
TEST(Average, IsWholeInACheckpointOrRefused) {
  const TempFolder folder;
  Rank one(World(), {"", {{"dp", 1}}, {}}, "cnn", options({}));
  one.step(0);
  one.trainer.save(folder.file("a"));
  SavedCheckpoint saved(folder.file("a"));
  for (const NamedTensor& t : read_average(saved)) {
    EXPECT_TRUE(at::equal(t.tensor, average_of(one.trainer).at(t.name))) << t.name;
  }
  const auto trainer = nlohmann::json::parse(saved.index().texts.at("trainer"));
  EXPECT_EQ(trainer.at("ema").at("updates"), 1);
}

/// One more state a parameter; while it stands in, a piece of 64 Ki elements and no more.
TEST(Average, TakesTheDocumentedMemory) {
  for (const ShardLevel level : {ShardLevel::none, ShardLevel::gradients, ShardLevel::parameters}) {
    const Place place{"", {{"shard", 2}}, {.shard_level = level}};
    test::run_ranks(2, [&](World world) {
      int64_t bytes[2] = {0, 0};
      for (const bool keeps : {false, true}) {
        MemoryLedger ledger;
        TrainerOptions with = options(place.layout, keeps ? kAverage : WeightAverage{});
        with.ledger = &ledger;
        Rank rank(world, place, "gpt", with);
        for (int step = 0; step < 2; ++step) rank.step(step);
        bytes[keeps ? 1 : 0] = ledger.live()[static_cast<size_t>(MemoryCategory::optimizer)];
        if (!keeps) continue;
        int64_t owned = 0;
        FlatModel& model = rank.trainer.model();
        for (int b = 0; b < model.num_blocks(); ++b) owned += model.flat(b).num_owned();
        EXPECT_EQ(bytes[1] - bytes[0], owned * 4);
        ledger.reset_peaks();
        const int64_t before = ledger.peak_total();
        rank.trainer.with_average([] {});
        EXPECT_LE(ledger.peak_total() - before, 256 << 10);
      }
    });
  }
}

TEST(Average, RefusesWhatItCannotDo) {
  const Place place{"", {{"dp", 1}}, {}};
  Rank without(World(), place, "cnn", options({}, {})), with(World(), place, "cnn", options({}));
  EXPECT_EQ(refusal([&] { without.trainer.with_average([] {}); }),
            "trainer: no average of the weights is kept; set TrainerOptions::average (optimizer.ema)");
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"a step", [&] { with.step(0); }},
      {"a save", [&] { with.trainer.save("/nowhere"); }},
      {"a load", [&] { with.trainer.load("/nowhere"); }},
      {"a load", [&] { with.trainer.load_weights("/nowhere"); }},
      {"with_average()", [&] { with.trainer.with_average([] {}); }},
  };
  for (const auto& [what, call] : calls) {
    EXPECT_EQ(refusal([&, &c = call] { with.trainer.with_average(c); }),
              std::string("trainer: ") + what + " while the average stands in for the weights; leave with_average() first");
  }
  with.step(0);
  for (const double decay : {1.0, -0.5, std::nan("")}) {
    EXPECT_NE(refusal([&] { Rank(World(), place, "cnn", options({}, {.decay = decay})); }).find("must be in [0, 1)"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace weft::average_test
