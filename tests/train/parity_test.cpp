// The parity table (law 1) and same bits (law 2): strategy x world x model, every cell a test against one device.
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <mutex>
#include <ostream>

#include "tests/support/run_ranks.h"
#include "tests/train/reference.h"
#include "weft/models/gpt.h"
#include "weft/models/vision.h"
#include "weft/train/trainer.h"

namespace weft {
namespace {

constexpr int64_t kGlobalBatch = 12;
constexpr int kSteps = 3;

struct Job {
  const char* name;
  std::function<Model()> model;
  std::function<Batch(int64_t)> batch_of;
};

std::ostream& operator<<(std::ostream& out, const Job& job) { return out << job.name; }

at::Tensor random_labels(int64_t step, at::IntArrayRef sizes, int64_t classes) {
  return at::randint(classes, sizes, at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 7), at::kLong);
}

Batch image_batch(int64_t step) {
  const at::Tensor images =
      at::randn({kGlobalBatch, 1, 12, 12}, at::detail::createCPUGenerator(static_cast<uint64_t>(step)), at::kFloat);
  return {{images}, random_labels(step, {kGlobalBatch}, 10), step * kGlobalBatch};
}

/// Some targets do not count, unevenly over the ranks: a mean of means would show.
Batch token_batch(int64_t step) {
  const at::Tensor tokens = random_labels(step, {kGlobalBatch, 9}, 13);
  at::Tensor target = tokens.narrow(1, 1, 8).clone();
  target.narrow(0, 0, 3).narrow(1, 2, 6).fill_(kIgnore);
  return {{tokens.narrow(1, 0, 8).contiguous()}, target, step * kGlobalBatch};
}

const std::vector<Job>& jobs() {
  static const std::vector<Job> all = {
      {"gpt", [] { return gpt({.layers = 2, .heads = 2, .width = 16, .context = 8, .vocabulary = 13, .dropout = 0.1}); },
       token_batch},
      {"cnn", [] { return cnn({.size = 12, .width = 4}); }, image_batch},
      {"mlp", [] { return mlp({.inputs = 144, .width = 24, .layers = 2}); }, image_batch},
  };
  return all;
}

struct Strategy {
  const char* name;
  int64_t micro_batch = 0;  ///< 0: the rank's whole share
  int slots = 0;
  BackendKind backend = BackendKind::shm;
  int64_t bucket_bytes = 25 << 20;
  double clip = 0.0;
  bool nesterov = false;
};

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

std::ostream& operator<<(std::ostream& out, const Strategy& s) { return out << s.name; }

Sgd sgd_of(const Strategy& s) { return {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = s.nesterov}; }

int64_t micro_batch_of(const Strategy& s, int world) { return s.micro_batch ? s.micro_batch : kGlobalBatch / world; }

/// Trains on every rank; what rank 0 has, after a check that all ranks hold the same weights.
Trained train_ranks(const Job& job, const Strategy& s, int ranks, const OptimizerOptions& optimizer) {
  Trained result;
  std::mutex mutex;
  std::vector<at::Tensor> first_weights(static_cast<size_t>(ranks));
  test::run_ranks(ranks, [&](World world) {
    const Mesh mesh(world, {{"dp", ranks}});
    Trainer trainer(mesh, job.model(), optimizer,
                    {.global_batch = kGlobalBatch,
                     .micro_batch = micro_batch_of(s, ranks),
                     .learning_rate = {.peak = 0.05, .steps = kSteps},
                     .clip = s.clip,
                     .reproducible_slots = s.slots,
                     .bucket_bytes = s.bucket_bytes,
                     .communication = {.backend = s.backend}});
    Trained mine;
    for (int step = 0; step < kSteps; ++step) {
      const int64_t share = kGlobalBatch / ranks;
      mine.losses.push_back(trainer.step(slice(job.batch_of(step), world.rank() * share, share)).loss);
    }
    for (const Param& param : trainer.model().params())
      mine.values.emplace_back(param.name, param.parameter->value.detach().clone());
    const std::lock_guard lock(mutex);
    first_weights[static_cast<size_t>(world.rank())] = trainer.model().flat(0).weights.clone();
    if (world.rank() == 0) result = std::move(mine);
  });
  for (const at::Tensor& weights : first_weights) EXPECT_TRUE(at::equal(weights, first_weights[0])) << "replicas drift apart";
  return result;
}

const at::Tensor& find(const Trained& trained, const std::string& name) {
  for (const auto& [other, value] : trained.values) {
    if (other == name) return value;
  }
  throw std::runtime_error("no parameter " + name);
}

class ParityTest : public ::testing::TestWithParam<std::tuple<Strategy, int, Job>> {};

TEST_P(ParityTest, EqualsOneDevice) {
  const auto& [strategy, ranks, job] = GetParam();
  const Trained expected = train_reference(job.model, job.batch_of,
                                           {.global_batch = kGlobalBatch,
                                            .micro_batch = micro_batch_of(strategy, ranks),
                                            .steps = kSteps,
                                            .clip = strategy.clip,
                                            .sgd = sgd_of(strategy)});
  const Trained actual = train_ranks(job, strategy, ranks, sgd_of(strategy));
  for (int step = 0; step < kSteps; ++step) EXPECT_NEAR(actual.losses[step], expected.losses[step], 2e-5) << "step " << step;
  ASSERT_EQ(actual.values.size(), expected.values.size());
  for (const auto& [name, value] : expected.values) {
    EXPECT_TRUE(at::allclose(find(actual, name), value, 1e-4, 2e-6))
        << name << ": largest difference " << find(actual, name).sub(value).abs().max().item<double>();
  }
}

std::string cell_name(const ::testing::TestParamInfo<std::tuple<Strategy, int, Job>>& info) {
  const auto& [strategy, ranks, job] = info.param;
  return std::string(strategy.name) + "_world" + std::to_string(ranks) + "_" + job.name;
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
    const Trained one = train_ranks(job, {.name = "one", .micro_batch = 1, .slots = 4, .clip = 0.5}, 1, optimizer);
    for (const int ranks : {1, 2, 4}) {
      for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
        for (const int64_t bucket_bytes : {1 << 10, 25 << 20}) {
          const Strategy s{
              .name = "", .micro_batch = 1, .slots = 4, .backend = backend, .bucket_bytes = bucket_bytes, .clip = 0.5};
          const Trained other = train_ranks(job, s, ranks, optimizer);
          EXPECT_EQ(one.losses, other.losses) << ranks << " ranks";
          for (const auto& [name, value] : one.values) {
            EXPECT_TRUE(at::equal(find(other, name), value))
                << name << " on " << ranks << " ranks, " << (backend == BackendKind::shm ? "shm" : "gloo");
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, SameBitsTest, ::testing::ValuesIn(jobs()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft
