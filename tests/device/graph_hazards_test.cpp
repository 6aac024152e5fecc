// What could make a captured step silently wrong: several trainers in one process, evaluations, saves and predictions between
// replays, ids out of range, blocks that draw or move their memory.
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/data/temp_folder.h"
#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
#include "tests/train/one_batch.h"
#include "weft/base/error.h"

namespace weft::graph_hazards_test {
namespace {

constexpr int kSteps = 7;

/// What a run of one trainer leaves.
struct Seen {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;
};

void expect_equal(const Seen& actual, const Seen& expected, const char* what) {
  EXPECT_EQ(actual.losses, expected.losses) << what;
  ASSERT_EQ(actual.weights.size(), expected.weights.size());
  for (size_t i = 0; i < expected.weights.size(); ++i) EXPECT_TRUE(actual.weights[i].equal(expected.weights[i])) << what << i;
}

std::vector<at::Tensor> weights_of(Trainer& trainer) {
  std::vector<at::Tensor> all;
  trainer.for_each_weight([&](const std::string&, const at::Tensor& x) { all.push_back(x.cpu().clone()); });
  return all;
}

std::unique_ptr<Trainer> trainer_of(const World& world, Model model, bool graph, ShardLevel level = ShardLevel::none) {
  return std::make_unique<Trainer>(Mesh(world, {{level == ShardLevel::none ? "dp" : "shard", world.size()}}), std::move(model),
                                   AdamW{},
                                   TrainerOptions{.global_batch = kGlobalBatch,
                                                  .micro_batch = kGlobalBatch / world.size() / 2,
                                                  .learning_rate = {.peak = 0.01, .steps = kSteps, .decay = Decay::cosine},
                                                  .clip = 0.05,
                                                  .layout = {.shard_level = level},
                                                  .graph = graph,
                                                  .float32_rates = true,
                                                  .communication = {.device = on_device({}).device(world.rank())}});
}

Batch share_of(const World& world, const Job& job, int64_t step) {
  const int64_t share = kGlobalBatch / world.size();
  return slice(job.batch_of(step), world.rank() * share, share);
}

class GraphHazards : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { said_of_device(); }
  void TearDown() override { EXPECT_EQ(said_of_device(), ""); }

  /// Runs on each rank, its device current.
  template <class Run>
  static void on_ranks(const Run& run) {
    test::run_ranks(GetParam(), [&](const World& world) {
      const c10::DeviceGuard current(on_device({}).device(world.rank()));
      run(world);
    });
  }
};

/// Steps of two take turns; both are captured, one step apart.
TEST_P(GraphHazards, TwoTrainersHaveTheBitsOfEachAlone) {
  const std::vector<const char*> jobs = {"gpt", "mlp"};
  on_ranks([&](const World& world) {
    std::vector<Seen> alone(2), together(2);
    for (size_t i = 0; i < jobs.size(); ++i) {
      const auto trainer = trainer_of(world, job(jobs[i]).model(), /*graph=*/false);
      for (int step = 0; step < kSteps; ++step)
        alone[i].losses.push_back(trainer->step(share_of(world, job(jobs[i]), step)).loss);
      alone[i].weights = weights_of(*trainer);
    }
    std::vector<std::unique_ptr<Trainer>> trainers;
    for (const char* name : jobs) trainers.push_back(trainer_of(world, job(name).model(), /*graph=*/true));
    for (int turn = 0; turn <= kSteps; ++turn) {
      for (int i : {0, 1}) {
        const int step = turn - i;
        if (step < 0 || step >= kSteps) continue;
        together[i].losses.push_back(trainers[i]->step(share_of(world, job(jobs[i]), step)).loss);
      }
    }
    for (int i : {0, 1}) {
      together[i].weights = weights_of(*trainers[i]);
      expect_equal(together[i], alone[i], jobs[i]);
    }
  });
}

/// With dropout, on every level of sharding: gathered weights of an evaluation are elsewhere than a replay's.
TEST_P(GraphHazards, WhatComesBetweenReplaysChangesNothing) {
  for (const ShardLevel level : {ShardLevel::none, ShardLevel::optimizer, ShardLevel::parameters}) {
    const test::TempFolder folder;
    on_ranks([&](const World& world) {
      Seen seen[2];
      for (const bool graph : {false, true}) {
        const Job& gpt = job("gpt");
        const auto trainer = trainer_of(world, gpt.model(), graph, level);
        EvaluationLoader evaluation(std::make_shared<OneBatch>(gpt.batch_of(1000)), 2, world.rank(), world.size());
        for (int step = 0; step < kSteps; ++step) {
          seen[graph].losses.push_back(trainer->step(share_of(world, gpt, step)).loss);
          if (step == 3) trainer->save((folder.path() / (graph ? "graph" : "issued")).string());
          if (step == 4) trainer->save_in_background((folder.path() / (graph ? "behind_graph" : "behind")).string());
          seen[graph].losses.push_back(trainer->evaluate(evaluation).loss);
          evaluation.rewind();
          if (step == 5) trainer->finish_save();
          if (step % 2 == 1) trainer->predict(share_of(world, gpt, step));
        }
        seen[graph].weights = weights_of(*trainer);
        if (!graph) continue;
        trainer->load((folder.path() / "behind_graph").string());
        std::vector<double> again;
        for (int step = 5; step < kSteps; ++step) again.push_back(trainer->step(share_of(world, gpt, step)).loss);
        EXPECT_EQ(again, (std::vector<double>{seen[1].losses[10], seen[1].losses[12]}));
      }
      expect_equal(seen[1], seen[0], "captured");
    });
  }
}

TEST_P(GraphHazards, AnIdOutOfRangeInAReplayIsNamed) {
  on_ranks([](const World& world) {
    const auto trainer = trainer_of(world, job("gpt").model(), /*graph=*/true);
    for (int step = 0; step < 4; ++step) trainer->step(share_of(world, job("gpt"), step));
    const std::vector<at::Tensor> before = weights_of(*trainer);
    Batch bad = share_of(world, job("gpt"), 4);
    const bool is_culprit = world.rank() == 0;
    if (is_culprit) bad.inputs[0][0][0] = 999;
    try {
      trainer->step(bad);
      ADD_FAILURE() << "stepped";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(is_culprit ? "999" : "rank 0"), std::string::npos) << error.what();
    }
  });
}

/// A block that is not keyed, and one that counts in other memory each time.
class Odd : public Block {
 public:
  Odd(bool draws, at::Device device) : draws_(draws), counter_(at::zeros({1}, at::TensorOptions().device(device))) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    if (!draws_ && context.training) counter_.unsafeGetTensorImpl()->set_storage_keep_dtype(counter_.add(1.0).storage());
    const at::Tensor x = inputs[0];
    return {draws_ && context.training ? x.mul(at::bernoulli(at::zeros({x.numel()}, x.options()).add_(0.5)).view(x.sizes()))
                                       : x};
  }
  std::vector<ParamSpec> parameters() override { return {}; }
  std::vector<BufferSpec> buffers() override {
    return draws_ ? std::vector<BufferSpec>{} : std::vector<BufferSpec>{{"count", counter_, true}};
  }
  bool always_uses_all() const override { return true; }

 private:
  bool draws_;
  at::Tensor counter_;
};

Model odd_model(bool draws, at::Device device) {
  Model model = job("mlp").model();
  model.blocks.insert(model.blocks.begin(), {"odd", "odd", std::make_shared<Odd>(draws, device)});
  return model;
}

/// Another trainer starts meanwhile, which neither hides what the first has drawn nor is refused for it.
TEST_P(GraphHazards, BlocksThatDrawOrMoveTheirBuffersAreRefused) {
  if (GetParam() > 1) return;  // thread ranks share LibTorch's generators
  on_ranks([](const World& world) {
    for (const bool draws : {true, false}) {
      {
        const auto odd = trainer_of(world, odd_model(draws, on_device({}).device(0)), /*graph=*/true),
                   plain = trainer_of(world, job("mlp").model(), true);
        for (int step = 0; step < 2; ++step) odd->step(share_of(world, job("mlp"), step));
        for (int step = 0; step < 4; ++step) plain->step(share_of(world, job("mlp"), step));
        try {
          odd->step(share_of(world, job("mlp"), 2));
          ADD_FAILURE() << "captured";
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find(draws ? "block 'odd' draws" : "buffer 'odd.count'"), std::string::npos)
              << error.what();
        }
      }
      const std::string said = said_of_device();  // a recording that is dropped has computed, which a graph would not have
      if (draws) {
        EXPECT_EQ(said, "");
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, GraphHazards, testing::Values(1, 2, 4),
                         [](const auto& info) { return "Of" + std::to_string(info.param); });

}  // namespace
}  // namespace weft::graph_hazards_test
