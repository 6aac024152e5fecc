// Naive data parallelism (layout.style = "master"): its parity table (law 1) and the same bits (law 2). Bytes on the wire are
// in trainer/split_traffic_test.cpp, memory in trainer/rank_memory_test.cpp, checkpoints in resume_test.cpp.
#include <gtest/gtest.h>

#include "tests/train/jobs.h"

namespace weft::master_test {
namespace {

constexpr int kSteps = 3;

/// All ranks work for rank 0; micro_batch 0: the whole of a rank's part at once.
Strategy with_master(Strategy strategy, int ranks, int64_t global_batch = kGlobalBatch) {
  strategy.pp = ranks;
  strategy.layout.master = true;
  if (strategy.micro_batch == 0) strategy.micro_batch = global_batch / ranks;
  return strategy;
}

const std::vector<Strategy>& strategies() {
  static const std::vector<Strategy> all = {
      {.name = "whole"},
      {.name = "whole_gloo", .backend = BackendKind::gloo},
      {.name = "micro_batches", .micro_batch = 1},
      {.name = "clip", .micro_batch = 1, .clip = 0.05, .nesterov = true},
      {.name = "recompute", .micro_batch = 1, .layout = {.recompute_every = 1}},
  };
  return all;
}

class MasterParity : public ::testing::TestWithParam<std::tuple<Strategy, int, Job>> {};

TEST_P(MasterParity, EqualsOneDevice) {
  const auto& [strategy, ranks, job] = GetParam();
  expect_parity(job, with_master(strategy, ranks), ranks, kSteps);
}

std::string cell_name(const ::testing::TestParamInfo<std::tuple<Strategy, int, Job>>& info) {
  const auto& [strategy, ranks, job] = info.param;
  return strategy.name + "_world" + std::to_string(ranks) + "_" + job.name;
}

INSTANTIATE_TEST_SUITE_P(Table, MasterParity,
                         ::testing::Combine(::testing::ValuesIn(strategies()), ::testing::Values(1, 2, 3, 4),
                                            ::testing::ValuesIn(jobs())),
                         cell_name);

/// Sums go along the tree of groups; so it has the bits of one device, and of all that has those.
TEST(Master, HasTheBitsOfOneDevice) {
  for (const Job& job : jobs()) {
    for (const OptimizerOptions& optimizer : std::vector<OptimizerOptions>{AdamW{}, Lamb{}}) {
      const Strategy slots{.name = "slots", .micro_batch = 1, .slots = 4, .clip = 0.5};
      const Trained one = train_ranks(job, slots, 1, optimizer, kSteps);
      for (const int ranks : {1, 2, 4}) {
        expect_equal(train_ranks(job, with_master(slots, ranks), ranks, optimizer, kSteps), one,
                     std::string(job.name) + " on " + std::to_string(ranks));
      }
    }
  }
}

/// bf16 rounds where it rounds on one device: gradients of micro-batches are kept in float32 with slots.
TEST(Master, HasTheBitsOfOneDeviceInBf16) {
  for (const char* name : {"gpt", "cnn"}) {
    Strategy slots{.name = "bf16", .micro_batch = 1, .slots = 4};
    slots.layout.precision = Precision::bf16;
    const Trained one = train_ranks(job(name), slots, 1, AdamW{}, kSteps);
    expect_equal(train_ranks(job(name), with_master(slots, 2), 2, AdamW{}, kSteps), one, name);
  }
}

}  // namespace
}  // namespace weft::master_test
