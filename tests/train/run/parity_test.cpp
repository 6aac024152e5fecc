// The parity table (law 1) and same bits (law 2) of data parallelism: strategy x world x model, every cell a test against one
// device.
#include <gtest/gtest.h>

#include "tests/train/jobs.h"

namespace weft::parity_test {
namespace {

constexpr int kSteps = 3;

const std::vector<Strategy>& strategies() {
  static const std::vector<Strategy> all = {
      {.name = "replicate"},
      {.name = "replicate_gloo", .backend = BackendKind::gloo},
      {.name = "small_buckets", .bucket_bytes = 1024},
      {.name = "accumulate_3", .micro_batch = 1},
      {.name = "slots_4", .micro_batch = 1, .slots = 4},
      {.name = "slots_4_gloo", .micro_batch = 1, .slots = 4, .backend = BackendKind::gloo},
      {.name = "slots_4_small_buckets", .micro_batch = 3, .slots = 4, .bucket_bytes = 1024},
      {.name = "clip", .micro_batch = 1, .clip = 0.05, .nesterov = true},
  };
  return all;
}

class ParityTest : public ::testing::TestWithParam<std::tuple<Strategy, int, Job>> {};

TEST_P(ParityTest, EqualsOneDevice) {
  const auto& [strategy, ranks, job] = GetParam();
  expect_parity(job, strategy, ranks, kSteps);
}

std::string cell_name(const ::testing::TestParamInfo<std::tuple<Strategy, int, Job>>& info) {
  const auto& [strategy, ranks, job] = info.param;
  return strategy.name + "_world" + std::to_string(ranks) + "_" + job.name;
}

INSTANTIATE_TEST_SUITE_P(Table, ParityTest,
                         ::testing::Combine(::testing::ValuesIn(strategies()), ::testing::Values(1, 2, 4),
                                            ::testing::ValuesIn(jobs())),
                         cell_name);

/// AdamW too: equal bits leave no rounding noise for it to amplify.
class SameBitsTest : public ::testing::TestWithParam<Job> {};

TEST_P(SameBitsTest, AnyWorldBackendAndBucketSize) {
  const Job& job = GetParam();
  for (const OptimizerOptions& optimizer : std::vector<OptimizerOptions>{AdamW{}, Sgd{}}) {
    const Trained one = train_ranks(job, {.name = "one", .micro_batch = 1, .slots = 4, .clip = 0.5}, 1, optimizer, kSteps);
    for (const int ranks : {1, 2, 4}) {
      for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
        for (const int64_t bucket_bytes : {1 << 10, 25 << 20}) {
          const Strategy s{
              .name = "", .micro_batch = 1, .slots = 4, .backend = backend, .bucket_bytes = bucket_bytes, .clip = 0.5};
          expect_equal(train_ranks(job, s, ranks, optimizer, kSteps), one,
                       std::to_string(ranks) + " ranks, " + (backend == BackendKind::shm ? "shm" : "gloo"));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, SameBitsTest, ::testing::ValuesIn(jobs()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft::parity_test
