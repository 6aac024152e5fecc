// Every optimizer in every layout: the bits of one device (law 2), LARS and LAMB with their norms of whole tensors too.
#include <gtest/gtest.h>

#include "tests/data/temp_folder.h"
#include "tests/optim/custom_lion.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/base/error.h"
#include "weft/nn/loss/cross_entropy.h"

namespace weft::optimizers_test {
namespace {

constexpr int kSteps = 3;

struct Case {
  std::string name;
  OptimizerOptions optimizer;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

struct Cell {
  Strategy strategy;
  int ranks = 1;
};

Cell cell(
    int ranks, Spread spread, ShardLevel level, const std::function<void(Strategy&)>& change = [](Strategy&) {}) {
  Strategy strategy{.spread = spread};
  strategy.layout.shard_level = level;
  change(strategy);
  return {strategy, ranks};
}

std::vector<Cell> cells() {
  const auto pipeline = [](const char* schedule) {
    return [schedule](Strategy& s) {
      s.pp = 2;
      s.layout.pipeline.schedule = schedule;
    };
  };
  return {cell(2, Spread::dp, ShardLevel::none),
          cell(2, Spread::shard, ShardLevel::optimizer),
          cell(2, Spread::shard, ShardLevel::gradients),
          cell(4, Spread::shard, ShardLevel::parameters),
          cell(4, Spread::hybrid, ShardLevel::parameters),
          cell(2, Spread::dp, ShardLevel::none, pipeline("zb-h1")),
          cell(4, Spread::shard, ShardLevel::gradients, pipeline("1f1b")),
          cell(2, Spread::shard, ShardLevel::optimizer, [](Strategy& s) { s.backend = BackendKind::gloo; })};
}

Strategy with(Strategy strategy, double clip) {
  strategy.micro_batch = 3;
  strategy.slots = 4;
  strategy.clip = clip;
  strategy.learning_rate = 0.01;
  return strategy;
}

void expect_same_bits(const std::string& name, const OptimizerOptions& optimizer, double clip, bool pipelines) {
  const Trained one = train_ranks(job(name), with({}, clip), 1, optimizer, kSteps);
  int number = 0;
  for (const Cell& cell : cells()) {
    if (cell.strategy.pp > 1 && !pipelines) continue;
    expect_equal(train_ranks(job(name), with(cell.strategy, clip), cell.ranks, optimizer, kSteps), one,
                 name + ", layout " + std::to_string(number++));
  }
}

class OptimizerBits : public ::testing::TestWithParam<Case> {};

TEST_P(OptimizerBits, AreThoseOfOneDevice) { expect_same_bits("gpt", GetParam().optimizer, 0.5, true); }
/// Ties between ranks of a pipeline add gradients up in another order (docs/pipeline.md).
TEST_P(OptimizerBits, TiedWithoutClipping) { expect_same_bits("tied_gpt", GetParam().optimizer, 0.0, false); }

INSTANTIATE_TEST_SUITE_P(Table, OptimizerBits,
                         testing::Values(Case{"lars", Lars{.weight_decay = 0.1, .trust = 0.02}}, Case{"lamb", Lamb{}},
                                         Case{"lion", Lion{.weight_decay = 0.1}}, Case{"custom_lion", test::custom_lion(0.1)},
                                         Case{"rmsprop", RmsProp{.momentum = 0.9}}, Case{"adagrad", Adagrad{}},
                                         Case{"muon", Muon{.adam_lr = 1e-3}},
                                         Case{"muon_matched", Muon{.nesterov = false, .adjust = MatrixRate::match_rms_adamw}},
                                         Case{"adafactor", Adafactor{.weight_decay = 0.1}}),
                         [](const auto& info) { return info.param.name; });

/// A user's optimizer has the bits of weft's, in every dtype, with rates and decays by name, an average, and offloaded state;
/// it resumes in another layout.
TEST(OwnOptimizer, HasTheBitsOfWeftsAndResumesInAnotherLayout) {
  const OptimizerOptions own = test::custom_lion(0.1), lion = Lion{.weight_decay = 0.1};
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    Strategy strategy = with(cell(2, Spread::shard, ShardLevel::parameters).strategy, 0.5);
    strategy.layout.precision = precision;
    if (precision == Precision::fp16) strategy.slots = 0;
    strategy.layout.offload_optimizer = Offload::host;
    strategy.parameters = {{.names = "h.0.*", .lr_factor = 0.5, .weight_decay = 0.3}};
    strategy.average = {.decay = 0.75};
    expect_equal(train_ranks(job("gpt"), strategy, 2, own, kSteps), train_ranks(job("gpt"), strategy, 2, lion, kSteps),
                 std::string(name(precision)));
  }
  const test::TempFolder folder;
  const std::vector<Cell> layouts = cells();
  const std::vector<Stretch> stretches = {{with(layouts[3].strategy, 0.5), 4, 1},
                                          {with(layouts[6].strategy, 0.5), 4, 2},
                                          {with(layouts[0].strategy, 0.5), 2, 3},
                                          {with({}, 0.5), 1, 4}};
  expect_equal(train_in_stretches(job("gpt"), stretches, own, folder.path().string()),
               train_ranks(job("gpt"), with({}, 0.5), 1, lion, 4), "in stretches");
}

/// Whose state it is, how much, and with which numbers: by names, in checkpoints, plans and agreements.
TEST(OwnOptimizer, IsKnownByItsNamesAndNumbers) {
  const test::TempFolder folder;
  const std::string saved = folder.path().string() + "/step-1";
  const auto trainer_of = [](const World& world, const OptimizerOptions& optimizer, MemoryLedger* ledger = nullptr) {
    return Trainer(Mesh(world, {{"shard", world.size()}}), job("mlp").model(), optimizer,
                   {.global_batch = 12, .micro_batch = 6, .layout = {.shard_level = ShardLevel::optimizer}, .ledger = ledger});
  };
  test::run_ranks(2, [&](World world) {
    MemoryLedger ledger;
    Trainer trainer = trainer_of(world, test::custom_lion(), &ledger);
    trainer.step(slice(job("mlp").batch_of(0), world.rank() * 6, 6));
    trainer.save(saved);
    const MemoryOptions options{.optimizer_states = num_states(test::custom_lion())};
    const MemoryEstimate reported = estimate_memory(trainer.program(), world.rank(), options);
    const int64_t held = ledger.live()[static_cast<size_t>(MemoryCategory::optimizer)];
    EXPECT_EQ(held, reported.of(MemoryCategory::optimizer));
    EXPECT_GT(held, 0);
  });
  const auto load = [&](const OptimizerOptions& optimizer) {
    return test::refusal([&] { trainer_of(World(), optimizer).load(saved); });
  };
  const auto named = std::make_shared<test::CustomLion>(0.9, 0.99, "exp_avg");
  EXPECT_EQ(load(test::custom_lion()), "");
  EXPECT_NE(load(CustomOptimizer{.update = named}).find("exp_avg"), std::string::npos);
  EXPECT_NE(load(Lion{}).find("exp_avg"), std::string::npos);
  test::run_ranks(2, [&](World world) {
    const CustomOptimizer mine{.update = std::make_shared<test::CustomLion>(0.9, world.rank() == 0 ? 0.99 : 0.98)};
    Trainer trainer = trainer_of(world, mine);
    if (world.rank() == 0) {
      EXPECT_THROW(trainer.start(), CommError);
      return;
    }
    const std::string error = test::refusal([&] { trainer.start(); });
    EXPECT_NE(error.find("rank 0 has optimizer: own lion, betas 0.9 and 0.99"), std::string::npos) << error;
  });
}

/// A tensor that two stages hold has one norm, counted once.
TEST(LayerWise, EqualsOneRankWhereStagesShareWeights) {
  for (const OptimizerOptions& optimizer : {OptimizerOptions(Lars{.trust = 0.02}), OptimizerOptions(Lamb{})}) {
    const Trained one = train_ranks(job("tied_gpt"), with({}, 0.0), 1, optimizer, kSteps);
    for (const Cell& cell : cells()) {
      if (cell.strategy.pp == 1) continue;
      expect_close(train_ranks(job("tied_gpt"), with(cell.strategy, 0.0), cell.ranks, optimizer, kSteps), one, 1e-3,
                   /*values=*/true);
    }
  }
}

/// Split layers' norms are sums over the ranks that share them, others' are counted once.
TEST(LayerWise, EqualsOneRankWhereLayersAreSplit) {
  for (const OptimizerOptions& optimizer : {OptimizerOptions(Lars{.trust = 0.02}), OptimizerOptions(Lamb{})}) {
    const Strategy alone{.learning_rate = 0.01};
    const Trained one = train_ranks(job("split_llama"), alone, 1, optimizer, kSteps);
    for (const ShardLevel level : {ShardLevel::none, ShardLevel::parameters}) {
      Strategy split = cell(4, level == ShardLevel::none ? Spread::dp : Spread::shard, level).strategy;
      split.tp = 2;
      split.learning_rate = 0.01;
      expect_close(train_ranks(job("split_llama"), split, 4, optimizer, kSteps), one, 1e-4, /*values=*/true);
    }
  }
}

/// Its state is also stored as whole tensors: a run resumes in another layout, with the bits of an uninterrupted one.
TEST(WholeTensors, ResumeInAnotherLayout) {
  for (const OptimizerOptions& optimizer : {OptimizerOptions(Muon{.adam_lr = 1e-3}), OptimizerOptions(Adafactor{})}) {
    const std::vector<Cell> layouts = cells();
    const Trained one = train_ranks(job("gpt"), with({}, 0.5), 1, optimizer, 4);
    const test::TempFolder folder;
    std::vector<Stretch> stretches = {{with(layouts[3].strategy, 0.5), 4, 1},
                                      {with(layouts[6].strategy, 0.5), 4, 2},
                                      {with(layouts[0].strategy, 0.5), 2, 3},
                                      {with({}, 0.5), 1, 4}};
    if (std::holds_alternative<Muon>(optimizer)) stretches.front().strategy.layout.offload_optimizer = Offload::host;
    expect_equal(train_in_stretches(job("gpt"), stretches, optimizer, folder.path().string()), one, optimizer_text(optimizer));
  }
}

/// Their state may wait elsewhere.
TEST(WholeTensors, HaveTheSameBitsWithStateThatIsAway) {
  const Muon optimizer{.adam_lr = 1e-3};
  const Trained one = train_ranks(job("gpt"), with({}, 0.5), 1, optimizer, kSteps);
  for (const Offload kind : {Offload::host, Offload::disk}) {
    Strategy strategy = cell(2, Spread::shard, ShardLevel::parameters).strategy;
    strategy.layout.offload_optimizer = strategy.layout.offload_parameters = kind;
    expect_equal(train_ranks(job("gpt"), with(strategy, 0.5), 2, optimizer, kSteps), one, "away");
  }
}

/// Overflowing gradients skip a step on all ranks, without gathers; then training continues.
TEST(WholeTensors, LeaveStepsOutTogether) {
  for (const OptimizerOptions& optimizer : {OptimizerOptions(Muon{}), OptimizerOptions(Adafactor{})}) {
    test::run_ranks(2, [&](World world) {
      Model model = job("gpt").model();
      model.loss = [](const Tensors& outputs, const at::Tensor& target) {
        const LossValue loss = cross_entropy(outputs, target);
        return LossValue{loss.sum.mul(100.0), loss.count};
      };
      const int64_t share = kGlobalBatch / 2;
      Trainer trainer(Mesh(world, {{"shard", 2}}), std::move(model), optimizer,
                      {.global_batch = kGlobalBatch,
                       .micro_batch = share,
                       .layout = {.shard_level = ShardLevel::parameters, .precision = Precision::fp16}});
      int64_t skipped = 0;
      const auto step = [&](int64_t number) {
        return trainer.step(slice(job("gpt").batch_of(number), world.rank() * share, share)).skipped;
      };
      while (skipped < 20 && step(skipped)) ++skipped;
      EXPECT_GT(skipped, 0) << "what is tested";
      EXPECT_LT(skipped, 20);
      EXPECT_EQ(trainer.loss_scale().skipped_steps, skipped);
      EXPECT_FALSE(step(skipped + 1));
    });
  }
}

TEST(WholeTensors, AreRefusedWhereLayersAreSplit) {
  const auto make = [](int parts) {
    const Mesh mesh(World(), {{"dp", 1}});
    Trainer(mesh, job("split_llama").model(), Muon{},
            {.global_batch = kGlobalBatch, .micro_batch = kGlobalBatch, .reproducible_tp = parts});
  };
  EXPECT_EQ(test::refusal([&] { make(0); }), "");
  EXPECT_NE(test::refusal([&] { make(4); }).find("works on whole tensors, but run.reproducible_tp = 4"), std::string::npos);
  test::run_ranks(2, [&](World world) {
    const std::string says = test::refusal([&] {
      Trainer(Mesh(world, {{"tp", 2}}), job("split_llama").model(), Muon{},
              {.global_batch = kGlobalBatch, .micro_batch = kGlobalBatch});
    });
    EXPECT_NE(says.find("but layout.tp = 2 divides them"), std::string::npos) << says;
  });
}

TEST(LayerWise, RefusesStateThatIsAway) {
  const auto make = [](const OptimizerOptions& optimizer) {
    const Mesh mesh(World(), {{"dp", 1}});
    Trainer(mesh, job("gpt").model(), optimizer,
            {.global_batch = kGlobalBatch, .micro_batch = kGlobalBatch, .layout = {.offload_optimizer = Offload::host}});
  };
  EXPECT_EQ(test::refusal([&] { make(AdamW{}); }), "");
  for (const OptimizerOptions& optimizer : {OptimizerOptions(Lars{}), OptimizerOptions(Lamb{})}) {
    EXPECT_NE(test::refusal([&] { make(optimizer); }).find("looks at all weights"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::optimizers_test
