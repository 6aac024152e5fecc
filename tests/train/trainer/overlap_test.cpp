// A rank computes during its calls, in every micro-batch.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/run_ranks.h"
#include "weft/models/vision.h"
#include "weft/train/trainer/trainer.h"

namespace weft::overlap_test {
namespace {

constexpr int64_t kBatch = 12;
constexpr int kMicroBatches = 3, kRanks = 2;

/// Returns true if the rank computed before anyone waited for that instruction.
bool overlaps_compute(const InstructionList& list, const std::map<int, TimedInstruction>& times, int index) {
  for (int next = index + 1; next < static_cast<int>(list.size()); ++next) {
    if (list[next].op == Op::backward) return times.at(next).start_s < times.at(index).end_s;
  }
  return false;
}

TEST(Overlap, NobodyWaitsForShardsOfGradientsBeforeTheNextBackward) {
  for (const ShardLevel level : {ShardLevel::gradients, ShardLevel::parameters}) {
    test::run_ranks(kRanks, [&](World world) {
      Trainer trainer(
          Mesh(world, {{"shard", kRanks}}), mlp({.inputs = 6, .width = 8, .layers = 4, .classes = 3}), Sgd{},
          {.global_batch = kBatch, .micro_batch = kBatch / kRanks / kMicroBatches, .layout = {.shard_level = level}});
      trainer.trace(true);
      const at::Generator generator = at::detail::createCPUGenerator(1);
      const int64_t share = kBatch / kRanks;
      trainer.step({{at::randn({share, 6}, generator, at::kFloat)}, at::randint(3, {share}, generator, at::kLong)});
      const InstructionList& list = trainer.program().of(world.rank());
      std::map<int, TimedInstruction> times;
      for (const TimedInstruction& time : trainer.step_times()) {
        if (time.rank == world.rank()) times.emplace(time.index, time);
      }
      std::map<int, int> beside;  // by micro-batch
      for (int i = 0; i < static_cast<int>(list.size()); ++i) {
        if (list[i].op == Op::reduce_scatter && overlaps_compute(list, times, i)) ++beside[list[i].micro];
      }
      for (int micro = 1; micro < kMicroBatches; ++micro) {  // the first one's sums join nothing: shm is done with them at once
        EXPECT_GE(beside[micro], 3) << "of five blocks, in micro-batch " << micro;
      }
    });
  }
}

}  // namespace
}  // namespace weft::overlap_test
