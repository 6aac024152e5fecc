// layout.sync_batch_norm: BatchNorm over the samples of all ranks trains as one device does on the whole batch, in every
// layout; with slots to the same bits on any number of ranks.
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/models/resnet.h"
#include "weft/train/compare/compare_layouts.h"

namespace weft::sync_batch_norm_test {
namespace {

constexpr int kSteps = 3;
constexpr int64_t kBatch = 16;

/// A ResNet of every kind of block, for small images.
Job resnet_job() {
  Job job = weft::job("cnn");
  return {.name = "resnet",
          .model = [] { return resnet({.depth = 8, .channels = 1, .width = 4}); },
          .batch_of =
              [batch_of = job.batch_of](int64_t step) {
                const Batch one = batch_of(2 * step), other = batch_of(2 * step + 1);
                return slice({{at::cat({one.inputs[0], other.inputs[0]})}, at::cat({one.target, other.target})}, 0, kBatch);
              },
          .global_batch = kBatch};
}

struct Layout {
  const char* name;
  int ranks;
  Strategy strategy;
};

Layout layout(
    const char* name, int ranks, Spread spread = Spread::dp, ShardLevel level = ShardLevel::none,
    const std::function<void(Strategy&)>& change = [](Strategy&) {}) {
  Layout result{name, ranks, {.name = name, .spread = spread}};
  result.strategy.layout.shard_level = level;
  result.strategy.layout.sync_batch_norm = SyncBatchNorm::all;
  change(result.strategy);
  return result;
}

std::vector<Layout> layouts() {
  return {layout("dp 2", 2),
          layout("dp 4", 4),
          layout("dp 2 over gloo", 2, Spread::dp, ShardLevel::none, [](Strategy& s) { s.backend = BackendKind::gloo; }),
          layout("zero 2", 2, Spread::shard, ShardLevel::gradients),
          layout("zero 3", 4, Spread::shard, ShardLevel::parameters),
          layout("hybrid", 4, Spread::hybrid, ShardLevel::parameters),
          layout("computed again", 2, Spread::dp, ShardLevel::none, [](Strategy& s) { s.layout.recompute_every = 1; })};
}

/// The reference knows nothing of ranks: plain LibTorch on the whole batch.
TEST(SyncBatchNorm, TrainsAsOneDeviceOnTheWholeBatch) {
  const Job job = resnet_job();
  const Sgd sgd = sgd_of({});
  Trained whole =
      train_reference(job.model, job.batch_of, {.global_batch = kBatch, .micro_batch = kBatch, .steps = kSteps, .sgd = sgd});
  whole.norms.clear();  // which trainers take where something asks for them
  for (const Layout& l : layouts()) {
    SCOPED_TRACE(l.name);
    expect_close(train_ranks(job, l.strategy, l.ranks, sgd, kSteps), whole, 2e-5, true);
  }
  Strategy apart;
  const Trained other = train_ranks(job, apart, 2, sgd, kSteps);
  EXPECT_GT(std::abs(other.losses.back() - whole.losses.back()), 1e-3) << "what is not synchronised is something else";
}

TEST(SyncBatchNorm, HasTheSameBitsInSlotsOnAnyNumberOfRanks) {
  const Job job = resnet_job();
  const auto train = [&](Layout l) {
    l.strategy.slots = 4;
    l.strategy.clip = 0.5;
    return train_ranks(job, l.strategy, l.ranks, Sgd{.lr = 0.05}, kSteps);
  };
  const Trained one = train(layout("one", 1));
  for (const Layout& l : layouts()) expect_equal(train(l), one, l.name);
}

/// Stages hand on plain tensors, whatever order blocks leave pixels in: the head alone is a stage here.
TEST(SyncBatchNorm, ResnetsHaveTheSameBitsInEveryCut) {
  const Job job = resnet_job();
  TrainerOptions options{.global_batch = kBatch, .micro_batch = 2, .reproducible_slots = 8};
  test::run_ranks(5, [&](const World& world) {
    const LayoutComparison found = compare_layouts(
        world,
        {.layout = {.axes = {{"pp", 5}}, .options = options},
         .trained = {.model = job.model, .optimizer = Sgd{.lr = 0.05}, .batches = whole_batches(job.batch_of), .steps = 2}});
    EXPECT_EQ(found.match, LayoutMatch::bit_identical);
  });
}

/// Which samples meet where a rank has several micro-batches, in a pipeline, and over one of the axes.
TEST(SyncBatchNorm, MeetsTheOthersMicroBatchByMicroBatch) {
  struct Case {
    const char* name;
    std::vector<AxisSize> axes;
    SyncBatchNorm sync;
    ShardLevel level;
  };
  const Case cases[] = {
      {"pipeline", {{"pp", 2}, {"dp", 2}}, SyncBatchNorm::all, ShardLevel::none},
      {"replicas alone", {{"dp", 2}, {"shard", 2}}, SyncBatchNorm::dp, ShardLevel::gradients},
      {"shards alone", {{"dp", 2}, {"shard", 2}}, SyncBatchNorm::shard, ShardLevel::parameters},
  };
  const Job job = resnet_job();
  for (const Case& c : cases) {
    TrainerOptions options{.global_batch = kBatch, .micro_batch = 2};
    options.layout.shard_level = c.level;
    options.layout.sync_batch_norm = c.sync;
    test::run_ranks(4, [&](const World& world) {
      const LayoutComparison found = compare_layouts(
          world,
          {.layout = {.axes = c.axes, .options = options},
           .trained = {.model = job.model, .optimizer = Sgd{.lr = 0.05}, .batches = whole_batches(job.batch_of), .steps = 2}});
      EXPECT_NE(found.match, LayoutMatch::different) << c.name;
    });
  }
}

TEST(SyncBatchNorm, AsksForOneMicroBatchARankInSlots) {
  test::run_ranks(2, [](const World& world) {
    TrainerOptions options{.global_batch = kBatch, .micro_batch = 2, .reproducible_slots = 4};
    options.layout.sync_batch_norm = SyncBatchNorm::all;
    EXPECT_EQ(
        test::refusal([&] {
          Trainer(Mesh(world, {{"dp", 2}}), resnet_job().model(), Sgd{}, options);
        }),
        "trainer: 4 reproducible slots with sync_batch_norm; they must be a power of two, a multiple of the data-parallel "
        "ranks (2) and a divisor of the global batch (16), and a rank's samples must be one micro-batch (8, not 2)");
  });
}

}  // namespace
}  // namespace weft::sync_batch_norm_test
