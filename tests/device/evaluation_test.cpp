// Evaluations on a device: the CPU's losses, counts and hits, for which the host does not wait micro-batch by micro-batch.
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
#include "tests/support/slowdown.h"
#include "tests/train/one_batch.h"
#include "weft/checked_device.h"
#include "weft/nn/operators_path.h"
#include "weft/trainer.h"

namespace weft::device_evaluation_test {
namespace {

constexpr int kTimes = 16 / test::kSlowdown;  // the job's batch, so often

Batch long_batch(const Job& job) {
  std::vector<at::Tensor> inputs, targets;
  for (int i = 0; i < kTimes; ++i) {
    const Batch batch = job.batch_of(i);
    inputs.push_back(batch.inputs[0]);
    targets.push_back(batch.target);
  }
  return {{at::cat(inputs)}, at::cat(targets), 0};
}

/// Evaluates sample by sample; returns the result, and how often hosts have waited for a device.
EvaluationResult evaluate(const std::string& name, int ranks, const Strategy& strategy, int64_t loss_chunk, uint64_t& waits) {
  const Job& job = weft::job(name);
  std::vector<EvaluationResult> results(static_cast<size_t>(ranks));
  test::run_ranks(ranks, [&](const World& world) {
    std::optional<ForcedOperators> operators;  // of LibTorch, as on the device
    if (!strategy.device) operators.emplace();
    const at::Device device = strategy.device ? strategy.device(world.rank()) : at::Device(at::kCPU);
    Trainer trainer(Mesh(world, {{"dp", ranks}}), job.model(), AdamW{},
                    {.global_batch = kGlobalBatch,
                     .micro_batch = kGlobalBatch / ranks,
                     .layout = {.loss_chunk = loss_chunk},
                     .communication = {.device = device}});
    EvaluationLoader loader(std::make_shared<OneBatch>(long_batch(job)), 1, world.rank(), ranks);
    trainer.evaluate(loader);
    loader.rewind();
    trainer.world_group().barrier("reset").wait();
    if (world.rank() == 0) checked_device::reset_counts();
    trainer.world_group().barrier("counted from here").wait();
    results[static_cast<size_t>(world.rank())] = trainer.evaluate(loader);
    trainer.world_group().barrier("evaluated").wait();
  });
  for (const EvaluationResult& result : results) {
    EXPECT_EQ(result.loss, results[0].loss);
    EXPECT_EQ(result.hits, results[0].hits);
  }
  waits = 0;
  for (const auto& [what, count] : checked_device::synchronisations()) waits += count;
  return results[0];
}

class DeviceEvaluation : public testing::TestWithParam<int> {};

TEST_P(DeviceEvaluation, HasTheResultsOfTheCpuWithoutAWaitForEachMicroBatch) {
  const int ranks = GetParam();
  for (const auto& [name, loss_chunk] : {std::pair<std::string, int64_t>{"cnn", 0}, {"gpt", 0}, {"gpt", 3}}) {
    SCOPED_TRACE(name + " " + std::to_string(loss_chunk));
    said_of_device();
    uint64_t waits = 0, none = 0;
    const EvaluationResult there = evaluate(name, ranks, on_device({}), loss_chunk, waits);
    EXPECT_EQ(said_of_device(), "");
    const EvaluationResult here = evaluate(name, ranks, {}, loss_chunk, none);
    EXPECT_EQ(there.loss, here.loss);
    EXPECT_EQ(there.count, here.count);
    EXPECT_EQ(there.hits, here.hits);
    EXPECT_EQ(there.top5, here.top5);
    EXPECT_GT(there.count, 0);
    const auto micro_batches = static_cast<uint64_t>(long_batch(job(name)).target.size(0));
    if (is_checked_device() && test::kSlowdown == 1) {  // ranks look after one another by time, which a sanitizer stretches
      EXPECT_LT(waits, micro_batches / 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceEvaluation, testing::Values(1, 2, 4),
                         [](const auto& info) { return "Of" + std::to_string(info.param); });

}  // namespace
}  // namespace weft::device_evaluation_test
