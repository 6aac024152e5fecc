// Ranks that are processes, each with a checked device of its own that is not the first, over NCCL's rules.
#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/device/on_device.h"
#include "tests/device/without_index.h"
#include "tests/support/run_processes.h"
#include "weft/checkpoint/digest.h"
#include "weft/nn/operators_path.h"
#include "weft/train/process/device.h"

namespace weft::device_processes_test {
namespace {

/// Two steps of code that names no index; the digest of the weights.
std::string train(const World& world, at::Device device) {
  const int64_t share = kGlobalBatch / world.size();
  Trainer trainer(Mesh(world, {{"dp", world.size()}}), job_without_index().model(), AdamW{},
                  {.global_batch = kGlobalBatch,
                   .micro_batch = 3,
                   .clip = 0.05,
                   .reproducible_slots = 4,
                   .communication = {.device = device}});
  for (int64_t step = 0; step < 2; ++step) {
    trainer.step(slice(job_without_index().batch_of(step), world.rank() * share, share));
  }
  WeightsDigest digest;
  trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) { digest.add(name, value); });
  return digest.hex();
}

TEST(DeviceProcesses, TrainOnTheDevicesOfTheirRanks) {
  on_device({});  // before the first backward of the process
  const auto results = test::run_processes(2, [](const World& world) {
    at::accelerator::setDeviceIndex(3);
    const at::Device device = rank_device("auto", world, BackendKind::automatic);
    const at::Device unnamed = at::ones({1}, at::Device(at::kPrivateUse1)).device();
    const std::string digest = train(world, device);
    return fmt::format("{} {} {}{}", unnamed.str(), at::accelerator::getDeviceIndex(), said_of_device(), digest);
  });
  const ForcedOperators operators;
  const std::string expected = train(World(), at::kCPU);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(results[rank].output, fmt::format("checked:{} {} {}", rank, rank, expected)) << results[rank].error;
  }
}

/// A thread of the program, whose current device is the first: the trainer makes its own current meanwhile.
TEST(DeviceProcesses, TrainElsewhereThanTheCallersDevice) {
  on_device({});  // before the first backward of the process
  const auto results = test::run_processes(2, [](const World& world) {
    const std::string digest = train(world, {at::kPrivateUse1, static_cast<at::DeviceIndex>(2 + world.rank())});
    return fmt::format("{} {}{}", at::accelerator::getDeviceIndex(), said_of_device(), digest);
  });
  const ForcedOperators operators;
  const std::string expected = "0 " + train(World(), at::kCPU);
  for (const test::ProcessResult& result : results) EXPECT_EQ(result.output, expected) << result.error;
}

}  // namespace
}  // namespace weft::device_processes_test
