// Steps submitted before the numbers of the one before are read: the same bits as one after another; a step that fails is named
// when its numbers come, and neither it nor the step after it changes a weight.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/checked_device.h"

namespace weft::submitted_steps_test {
namespace {

constexpr int kSteps = 4;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// This rank's share of a step's global batch.
using Share = std::function<Batch(int64_t step)>;

class SubmittedSteps : public testing::TestWithParam<int> {
 protected:
  static void on_ranks(const std::function<void(Trainer&, const Share&)>& use, const OptimizerOptions& optimizer = AdamW{}) {
    const Strategy strategy = on_device({.clip = 0.05});
    said_of_device();
    test::run_ranks(GetParam(), [&](const World& world) {
      const int64_t share = kGlobalBatch / world.size();
      Trainer trainer(Mesh(world, {{"dp", world.size()}}), job("mlp").model(), optimizer,
                      {.global_batch = kGlobalBatch,
                       .micro_batch = share,
                       .clip = strategy.clip,
                       .communication = {.device = strategy.device(world.rank())}});
      use(trainer, [&](int64_t step) {
        Batch batch = job("mlp").batch_of(step);
        for (at::Tensor& input : batch.inputs) input = input.narrow(0, world.rank() * share, share).clone();
        batch.target = batch.target.narrow(0, world.rank() * share, share);
        return batch;
      });
    });
    EXPECT_EQ(said_of_device(), "");
  }

  struct Run {
    std::vector<double> losses, norms;
    std::map<std::string, at::Tensor> weights;
  };
  static Run run(bool ahead, const OptimizerOptions& optimizer) {
    Run run;
    on_ranks(
        [&](Trainer& trainer, const Share& share) {
          Run own;
          const auto settle = [&] {
            const StepResult result = trainer.settle();
            own.losses.push_back(result.loss);
            own.norms.push_back(result.norm);
          };
          for (int step = 0; step < kSteps; ++step) {
            trainer.submit(share(step));
            EXPECT_TRUE(trainer.reads_late());
            if (!ahead || step > 0) settle();
            EXPECT_EQ(trainer.unsettled(), ahead ? 1 : 0);
          }
          trainer.for_each_weight([&](const std::string& name, const at::Tensor& x) { own.weights[name] = x.clone(); });
          EXPECT_FALSE(trainer.reads_late()) << "the last step's numbers come before its weights";
          if (ahead) settle();
          if (trainer.world_group().rank() == 0) run = own;
        },
        optimizer);
    return run;
  }
};

TEST_P(SubmittedSteps, HaveTheBitsOfStepsOneByOne) {
  for (const OptimizerOptions& optimizer : {OptimizerOptions(AdamW{}), OptimizerOptions(Sgd{.momentum = 0.9})}) {
    const Run ahead = run(true, optimizer), one_by_one = run(false, optimizer);
    EXPECT_EQ(ahead.losses, one_by_one.losses);
    EXPECT_EQ(ahead.norms, one_by_one.norms);
    for (const auto& [name, value] : one_by_one.weights) EXPECT_TRUE(ahead.weights.at(name).equal(value)) << name;
  }
}

TEST_P(SubmittedSteps, AFailedOneIsNamedAndNoneAfterItUpdates) {
  on_ranks([](Trainer& trainer, const Share& share) {
    trainer.step(share(0));
    std::vector<at::Tensor> before;
    FlatModel& model = trainer.model();
    for (int b = 0; b < model.num_blocks(); ++b) before.push_back(model.flat(b).master.cpu());
    trainer.submit(share(1));
    Batch bad = share(2);
    const bool is_culprit = trainer.world_group().rank() == 0;
    if (is_culprit) bad.inputs[0].fill_(kNan);
    trainer.submit(bad);
    trainer.settle();
    for (int b = 0; b < model.num_blocks(); ++b) {
      const at::Tensor now = model.flat(b).master.cpu();
      EXPECT_TRUE(now.numel() == 0 || !now.equal(before[b])) << "step 2 is good: block " << b;
      before[b] = now;
    }
    trainer.submit(share(3));
    try {
      trainer.settle();
      ADD_FAILURE() << "settled";
    } catch (const Error& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find(is_culprit ? "step 3" : "rank 0"), std::string::npos) << said;
    }
    for (int b = 0; b < model.num_blocks(); ++b) EXPECT_TRUE(model.flat(b).master.cpu().equal(before[b])) << "block " << b;
  });
}

TEST_P(SubmittedSteps, AResultIsNotLostToAStepThatCannotBeIssued) {
  const double expected = run(false, AdamW{}).losses[1];
  on_ranks([&](Trainer& trainer, const Share& share) {
    trainer.submit(share(0));
    trainer.submit(share(1));
    trainer.settle();
    EXPECT_THROW(trainer.submit([]() -> Batch { throw InputError("no more data"); }), InputError);
    ASSERT_EQ(trainer.unsettled(), 1);
    EXPECT_EQ(trainer.steps_done(), 2);
    EXPECT_EQ(trainer.settle().loss, expected);
    EXPECT_THROW(trainer.settle(), Error);
  });
}

TEST_P(SubmittedSteps, AreSettledBeforeAStepAndByOtherCalls) {
  on_ranks([](Trainer& trainer, const Share& share) {
    EXPECT_THROW(trainer.settle(), InputError);
    trainer.submit(share(0));
    trainer.submit(share(1));
    EXPECT_THROW(trainer.step(share(2)), InputError);
    trainer.for_each_weight([](const std::string&, const at::Tensor&) {});
    EXPECT_EQ(trainer.unsettled(), 2);
    EXPECT_NE(trainer.settle().loss, 0.0);
    EXPECT_NE(trainer.settle().loss, 0.0);
    EXPECT_EQ(trainer.steps_done(), 2);
    trainer.step(share(2));
  });
}

/// Times come from events: a traced step waits once more than others, where it begins, and never between instructions.
TEST_P(SubmittedSteps, ATracedStepIsNotHeldUp) {
  on_ranks([](Trainer& trainer, const Share& share) {
    const auto waits_of = [&](int64_t step) {
      checked_device::reset_counts();
      trainer.step(share(step));
      uint64_t waits = 0;
      for (const auto& [what, count] : checked_device::synchronisations()) waits += count;
      return waits;
    };
    trainer.step(share(0));
    const uint64_t usual = waits_of(1);
    trainer.trace(true);
    const uint64_t traced = waits_of(2);
    if (trainer.world_group().size() == 1) {  // the counts are those of all ranks
      EXPECT_EQ(traced, usual + 1);
    }
    const std::vector<TimedInstruction> times = trainer.step_times();
    if (trainer.world_group().rank() != 0) return;
    EXPECT_EQ(times.size(), trainer.program().of(0).size() * static_cast<size_t>(trainer.world_group().size()));
    double before_s = 0.0;
    for (const TimedInstruction& time : times) {
      if (time.rank != 0) continue;
      EXPECT_GE(time.start_s, before_s);
      EXPECT_GE(time.end_s, time.start_s);
      before_s = time.start_s;
    }
    EXPECT_GT(before_s, times.front().start_s);
  });
}

/// Kernels have times of the device, also those that autograd's threads run.
TEST_P(SubmittedSteps, OperatorsAreTraced) {
  on_ranks([](Trainer& trainer, const Share& share) {
    trainer.trace(true, /*operators=*/true);
    trainer.step(share(0));
    const InstructionList& list = trainer.program().of(trainer.world_group().rank());
    std::map<Op, int> kernels;
    for (const MeasuredOperator& x : trainer.operators()) {
      EXPECT_LE(x.start_s, x.end_s) << x.name;
      for (size_t i = 0; i < list.size(); ++i) {
        const InstructionTime& time = trainer.instruction_times()[i];
        if (x.is_kernel && x.start_s >= time.start_s && x.end_s <= time.issued_s) ++kernels[list[i].op];
      }
    }
    for (const Op op : {Op::forward, Op::backward, Op::update}) EXPECT_GT(kernels[op], 0) << name(op);
    trainer.trace(false);
    trainer.step(share(1));
    EXPECT_TRUE(trainer.operators().empty());  // that step was not traced
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SubmittedSteps, testing::Values(1, 2, 4));

}  // namespace
}  // namespace weft::submitted_steps_test
