// Captured steps: what a replay costs the host, and what is said when one cannot be right.
#include <ATen/ops/cat.h>
#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/data/temp_folder.h"
#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
#include "tests/support/slowdown.h"
#include "tests/train/one_batch.h"
#include "weft/base/error.h"
#include "weft/checked_device.h"
#include "weft/nn/block.h"

namespace weft::device_graphs_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class DeviceGraphs : public testing::TestWithParam<int> {
 protected:
  using Share = std::function<Batch(int64_t step)>;

  static void on_ranks(const std::function<void(Trainer&, const Share&)>& use, const std::string& of = "mlp",
                       bool may_fail = false, ShardLevel level = ShardLevel::none) {
    const Strategy strategy = on_device({.clip = 0.05});
    said_of_device();
    const auto run = [&](const World& world) {
      const int64_t share = kGlobalBatch / world.size();
      Trainer trainer(Mesh(world, {{level == ShardLevel::none ? "dp" : "shard", world.size()}}), job(of).model(), AdamW{},
                      {.global_batch = kGlobalBatch,
                       .micro_batch = share,
                       .clip = strategy.clip,
                       .layout = {.shard_level = level},
                       .graph = true,
                       .communication = {.device = strategy.device(world.rank()), .timeout = std::chrono::seconds(20)}});
      use(trainer, [&](int64_t step) {
        Batch batch = job(of).batch_of(step);
        for (at::Tensor& input : batch.inputs) input = input.narrow(0, world.rank() * share, share).clone().pin_memory();
        batch.target = batch.target.narrow(0, world.rank() * share, share).clone().pin_memory();
        return batch;
      });
    };
    test::run_ranks(GetParam(), [&](const World& world) {
      try {
        run(world);
      } catch (const std::exception&) {
        if (!may_fail) throw;
      }
    });
  }
};

TEST_P(DeviceGraphs, AreOneLaunchAndNoWaitBesideTheResults) {
  on_ranks([](Trainer& trainer, const Share& share) {
    std::vector<int64_t> calls;
    const auto step = [&](int64_t number) {
      trainer.step(share(number));
      calls.push_back(trainer.data_group().traffic().calls);
    };
    for (int64_t number = 0; number < 4; ++number) step(number);
    trainer.world_group().barrier("counts").wait();
    if (trainer.world_group().rank() == 0) checked_device::reset_counts();
    trainer.world_group().barrier("counts").wait();
    step(4);
    EXPECT_EQ(calls[3] - calls[2], calls[1] - calls[0]) << "of a replay and of a step as it comes";
    trainer.world_group().barrier("counts").wait();
    if (trainer.world_group().rank() == 0) {
      checked_device::Counts all;
      for (const auto& [label, counts] : checked_device::counts()) {
        all.launches += counts.launches;
        all.synchronisations += counts.synchronisations;
        all.stalls += counts.stalls;
      }
      // The graph; the batch's two tensors, to the device and to the graph's place; the step's values, and its results.
      EXPECT_EQ(all.launches, 7u * GetParam());
      EXPECT_EQ(all.synchronisations, 1u * GetParam());
      EXPECT_EQ(checked_device::launches().at("graph"), 1u * GetParam());
    }
    trainer.world_group().barrier("counts").wait();
  });
  EXPECT_EQ(said_of_device(), "");
}

TEST_P(DeviceGraphs, ThatFailAreNamedAndUpdateNothing) {
  for (const ShardLevel level : {ShardLevel::none, ShardLevel::optimizer, ShardLevel::parameters})
    on_ranks(
        [](Trainer& trainer, const Share& share) {
          for (int step = 0; step < 4; ++step) trainer.step(share(step));
          std::vector<at::Tensor> before;
          FlatModel& model = trainer.model();
          for (int b = 0; b < model.num_blocks(); ++b) before.push_back(model.flat(b).master.cpu());
          Batch bad = share(4);
          const bool is_culprit = trainer.world_group().rank() == 0;
          if (is_culprit) bad.inputs[0].fill_(kNan);
          try {
            trainer.step(bad);
            ADD_FAILURE() << "stepped";
          } catch (const Error& error) {
            const std::string said = error.what();
            EXPECT_NE(said.find(is_culprit ? "step 5" : "rank 0"), std::string::npos) << said;
          }
          for (int b = 0; b < model.num_blocks(); ++b)
            EXPECT_TRUE(model.flat(b).master.cpu().equal(before[b])) << "block " << b;
        },
        "mlp", false, level);
  EXPECT_EQ(said_of_device(), "");
}

/// The others sit in a replay that no rank can finish.
TEST_P(DeviceGraphs, NameARankThatLeaves) {
  if (GetParam() == 1) return;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::string> errors(static_cast<size_t>(GetParam()));
  on_ranks(
      [&](Trainer& trainer, const Share& share) {
        trainer.start();
        const int rank = trainer.world_group().rank();
        try {
          for (int step = 0; step < 5; ++step) trainer.step(share(step));
          if (rank == 1) throw std::runtime_error("out of luck");
          trainer.step(share(5));
        } catch (const std::exception& error) {
          errors[static_cast<size_t>(rank)] = error.what();
          throw;
        }
      },
      "mlp", /*may_fail=*/true);
  EXPECT_EQ(errors[1], "out of luck");
  EXPECT_NE(errors[0].find("rank 1"), std::string::npos) << errors[0];
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  said_of_device();
}

/// Steps after a load are those of a run that was not interrupted: the graph is captured anew.
TEST_P(DeviceGraphs, AreCapturedAnewAfterALoad) {
  const test::TempFolder folder;
  on_ranks([&](Trainer& trainer, const Share& share) {
    for (int step = 0; step < 4; ++step) trainer.step(share(step));
    trainer.save((folder.path() / "four").string());
    std::vector<double> losses, again;
    for (int step = 4; step < 8; ++step) losses.push_back(trainer.step(share(step)).loss);
    trainer.load((folder.path() / "four").string());
    for (int step = 4; step < 8; ++step) again.push_back(trainer.step(share(step)).loss);
    EXPECT_EQ(again, losses);
  });
  EXPECT_EQ(said_of_device(), "");
}

TEST_P(DeviceGraphs, TakeBatchesOfOneShape) {
  on_ranks([](Trainer& trainer, const Share& share) {
    for (int step = 0; step < 3; ++step) trainer.step(share(step));
    Batch other = share(3);
    other.inputs[0] = at::cat({other.inputs[0], other.inputs[0]}, 1);
    try {
      trainer.step(other);
      ADD_FAILURE() << "stepped";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("in the captured step"), std::string::npos) << error.what();
    }
  });
}

/// What a rank has seen of a run.
struct Seen {
  std::vector<double> losses, norms, evaluations;
  std::vector<std::vector<double>> votes;
  std::map<std::string, at::Tensor> weights;
};

/// Steps of two sizes in a pipeline of replicas, votes that change, an evaluation after each step, and a step that is traced.
Seen run_with_interruptions(const World& world, bool graph) {
  const Job& job = weft::job("deep_gpt");
  const int pp = std::min(world.size(), 2), dp = world.size() / pp;
  const Mesh mesh(world, {{"pp", pp}, {"dp", dp}});
  const auto data = mesh.join({"dp"});
  int64_t step = 0;
  Trainer trainer(mesh, job.model(), AdamW{.lr = 0.01},
                  {.global_batch = 16,
                   .ramp = {{8, 4}},
                   .micro_batch = 2,
                   .learning_rate = {.peak = 0.01, .steps = 9, .decay = Decay::cosine},
                   .clip = 0.05,
                   .graph = graph,
                   .float32_rates = true,
                   .votes = {.count = 1, .of_rank = [&] { return std::vector<double>{static_cast<double>(step)}; }},
                   .communication = {.device = on_device({}).device(world.rank())}});
  EvaluationLoader evaluation(std::make_shared<OneBatch>(job.batch_of(1000)), 2, data.index, data.size());
  Seen seen;
  for (; step < 9; ++step) {
    const int64_t share = trainer.global_batch() / dp;
    trainer.trace(step == 7);
    const StepResult result = trainer.step(slice(job.batch_of(step), data.index * share, share));
    seen.losses.push_back(result.loss);
    seen.norms.push_back(result.norm);
    seen.votes.push_back(result.votes);
    seen.evaluations.push_back(trainer.evaluate(evaluation).loss);
    evaluation.rewind();
  }
  trainer.for_each_weight([&](const std::string& name, const at::Tensor& x) { seen.weights[name] = x.cpu().clone(); });
  return seen;
}

TEST_P(DeviceGraphs, AreStepsLikeOthersWhateverComesBetween) {
  std::vector<Seen> captured(static_cast<size_t>(GetParam())), issued = captured;
  said_of_device();
  for (const bool graph : {false, true}) {
    test::run_ranks(GetParam(), [&](const World& world) {
      const c10::DeviceGuard current(on_device({}).device(world.rank()));
      (graph ? captured : issued)[static_cast<size_t>(world.rank())] = run_with_interruptions(world, graph);
    });
  }
  EXPECT_EQ(said_of_device(), "");
  for (size_t rank = 0; rank < issued.size(); ++rank) {
    SCOPED_TRACE(rank);
    EXPECT_EQ(captured[rank].losses, issued[rank].losses);
    EXPECT_EQ(captured[rank].norms, issued[rank].norms);
    EXPECT_EQ(captured[rank].votes, issued[rank].votes);
    EXPECT_EQ(captured[rank].evaluations, issued[rank].evaluations);
    for (const auto& [name, value] : issued[rank].weights) EXPECT_TRUE(captured[rank].weights.at(name).equal(value)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceGraphs, testing::ValuesIn(test::some_ranks()),
                         [](const auto& info) { return "Of" + std::to_string(info.param); });

}  // namespace
}  // namespace weft::device_graphs_test
