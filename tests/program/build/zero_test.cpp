// Whole steps of ZeRO-1, 2, 3 (Rajbhandari et al. 2020) and of hybrid sharding (Zhao et al. 2023), word for word, and their
// traffic.
#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"
#include "weft/program/verify/verify.h"

namespace weft::zero_test {
namespace {

using enum ShardLevel;

struct Case {
  const char* what;
  StepLayout layout;
  const char* expected;
};

const Case kCases[] = {
    {"ZeRO-1: gradients are reduced once, each rank updates its part, weights are gathered",
     {.shard = 2, .shard_level = optimizer, .micro_batches = 2},
     "load0 forward0.0 forward1.0 loss0 backward1.0 backward0.0 "
     "load1 forward0.1 forward1.1 loss1 reduce_loss backward1.1 reduce_scatter1.1 backward0.1 reduce_scatter0.1 "
     "update1-1 update0-0 gather1 gather0"},
    {"ZeRO-2: gradients are reduced after every backward",
     {.shard = 2, .shard_level = gradients, .micro_batches = 2, .clip = true},
     "load0 forward0.0 forward1.0 loss0 backward1.0 reduce_scatter1.0 backward0.0 reduce_scatter0.0 "
     "load1 forward0.1 forward1.1 loss1 reduce_loss backward1.1 reduce_scatter1.1 backward0.1 reduce_scatter0.1 "
     "norm0-1@shard update1-1 update0-0 gather1 gather0"},
    {"ZeRO-2 in a fixed order of sums: once, from whole gradients",
     {.shard = 2, .shard_level = gradients, .keep_order = true, .micro_batches = 2},
     "load0 forward0.0 forward1.0 loss0 backward1.0 backward0.0 "
     "load1 forward0.1 forward1.1 loss1 reduce_loss backward1.1 reduce_scatter1.1 backward0.1 reduce_scatter0.1 "
     "update1-1 update0-0 gather1 gather0"},
    {"ZeRO-3: weights are gathered before a block runs and released after",
     {.shard = 2, .shard_level = parameters, .prefetch = 0},
     "load0 gather0 forward0.0 release0 gather1 forward1.0 loss0 reduce_loss "
     "backward1.0 release1 reduce_scatter1.0 gather0 backward0.0 release0 reduce_scatter0.0 update1-1 update0-0"},
    {"ZeRO-3 with prefetch: the next gather overlaps a block",
     {.shard = 2, .shard_level = parameters, .prefetch = 1},
     "gather0 load0 gather1 forward0.0 release0 forward1.0 loss0 reduce_loss gather0 "
     "backward1.0 release1 reduce_scatter1.0 backward0.0 release0 reduce_scatter0.0 update1-1 update0-0"},
    {"ZeRO-3, weights kept from forward to backward",
     {.shard = 2, .shard_level = parameters, .reshard_after_forward = false, .prefetch = 0},
     "load0 gather0 forward0.0 gather1 forward1.0 loss0 reduce_loss "
     "backward1.0 release1 reduce_scatter1.0 backward0.0 release0 reduce_scatter0.0 update1-1 update0-0"},
    {"ZeRO-3 with recompute: a block is gathered once for its second forward and its backward",
     {.shard = 2, .shard_level = parameters, .prefetch = 0, .recompute = {.every = 1}},
     "load0 gather0 forward0.0 release0 gather1 forward1.0 drop0.0 loss0 reduce_loss "
     "backward1.0 release1 reduce_scatter1.0 gather0 forward0.0 backward0.0 release0 reduce_scatter0.0 update1-1 update0-0"},
    {"ZeRO-3 with reproducible slots",
     {.shard = 2, .shard_level = parameters, .prefetch = 0, .keep_order = true, .micro_batches = 2, .slots = 2},
     "load0 gather0 forward0.0 release0 gather1 forward1.0 loss0 backward1.0 release1 gather0 backward0.0 combine0-1s0 "
     "load1 forward0.1 release0 gather1 forward1.1 loss1 reduce_loss backward1.1 release1 combine1-1s1 reduce_scatter1.1 "
     "gather0 backward0.1 release0 combine0-0s1 reduce_scatter0.1 update1-1 update0-0"},
    {"hybrid: shards are summed over the replicas once per step, the norm over the shards",
     {.dp = 2, .shard = 2, .shard_level = parameters, .prefetch = 0, .micro_batches = 1, .clip = true},
     "load0 gather0 forward0.0 release0 gather1 forward1.0 loss0 reduce_loss "
     "backward1.0 release1 reduce_scatter1.0 reduce1-1@dp gather0 backward0.0 release0 reduce_scatter0.0 reduce0-0@dp "
     "norm0-1@shard update1-1 update0-0"},
    {"hybrid of ZeRO-2",
     {.dp = 2, .shard = 2, .shard_level = gradients, .micro_batches = 2},
     "load0 forward0.0 forward1.0 loss0 backward1.0 reduce_scatter1.0 backward0.0 reduce_scatter0.0 "
     "load1 forward0.1 forward1.1 loss1 reduce_loss backward1.1 reduce_scatter1.1 reduce1-1@dp "
     "backward0.1 reduce_scatter0.1 reduce0-0@dp update1-1 update0-0 gather1 gather0"},
    {"ZeRO-1 with its optimizer state in slower memory",
     {.shard = 2, .shard_level = optimizer, .offload = {.optimizer = true}},
     "load0 forward0.0 forward1.0 loss0 reduce_loss backward1.0 reduce_scatter1.0 backward0.0 reduce_scatter0.0 "
     "reload_optimizer1 update1-1 offload_optimizer1 reload_optimizer0 update0-0 offload_optimizer0 gather1 gather0"},
    {"one rank as a shard of one: the identity, no gather after the update",
     {.shard = 1, .shard_level = optimizer},
     "load0 forward0.0 forward1.0 loss0 reduce_loss backward1.0 reduce_scatter1.0 backward0.0 reduce_scatter0.0 "
     "update1-1 update0-0"},
    {"without levels a shard axis is one of replicas",
     {.dp = 1, .shard = 2, .shard_level = none, .bucket_bytes = 1},
     "load0 forward0.0 forward1.0 loss0 reduce_loss backward1.0 reduce1-1 backward0.0 reduce0-0 update1-1 update0-0"},
};

TEST(Zero, steps_as_the_papers_say) {
  for (const Case& c : kCases) {
    const Program program = build_program(toy_model(2), c.layout);
    EXPECT_EQ(text(program.of(0)), c.expected) << c.what;
    verify(program);
  }
}

// Gradient bytes G and weight bytes W over n shards, d replicas of them and m micro-batches.
int64_t expected_gradients(const StepLayout& x, int64_t g) {
  if (x.shard_level == none) return 2 * g * (x.dp * x.shard - 1) / (x.dp * x.shard);
  const bool every = x.shard_level >= gradients && !x.keep_order;
  return (every ? x.micro_batches : 1) * g * (x.shard - 1) / x.shard + 2 * (g / x.shard) * (x.dp - 1) / x.dp;
}

int64_t expected_weights(const StepLayout& x, int blocks, int64_t block_bytes) {
  const int m = x.micro_batches;
  const int again = m - 1;  // the first block stays for the next micro-batch
  int64_t gathers = 0;
  if (x.shard_level == optimizer || x.shard_level == gradients) gathers = blocks;
  if (x.shard_level == parameters) gathers = x.reshard_after_forward ? 2 * m * blocks - m - again : m * blocks - again;
  return gathers * block_bytes * (x.shard - 1) / x.shard;
}

TEST(Zero, sends_as_the_passes_say) {
  constexpr int kBlocks = 4;
  constexpr int64_t kNumel = 64 * 24;  // divides by every number below
  for (ShardLevel level : {none, optimizer, gradients, parameters}) {
    for (int shard : {1, 2, 4}) {
      for (int dp : {1, 2, 3}) {
        for (int micro_batches : {1, 2, 3}) {
          for (int width : {2, 4}) {
            for (bool flag : {false, true}) {
              const StepLayout layout = {.dp = dp,
                                         .shard = shard,
                                         .shard_level = level,
                                         .reshard_after_forward = flag,
                                         .weight_bytes = width,
                                         .gradient_bytes = 6 - width,  // bf16 weights with float32 gradients, and the reverse
                                         .keep_order = flag,
                                         .micro_batches = micro_batches,
                                         .bucket_bytes = 1,
                                         .clip = flag};
              const StepCost cost = step_cost(build_program(toy_model(kBlocks, kNumel), layout).of(0));
              const int ranks = dp * shard;
              const int64_t losses = 2 * (ranks - 1) * 24 * micro_batches;
              const int64_t norm = flag && level != none ? 2 * (shard - 1) * 21 * 8 / shard : 0;
              SCOPED_TRACE(fmt::format("{} over {} shards, {} replicas, {} micro-batches, {} bytes", name(level), shard, dp,
                                       micro_batches, width));
              EXPECT_EQ(cost.gradient_wire_bytes, expected_gradients(layout, kBlocks * kNumel * layout.gradient_bytes));
              EXPECT_EQ(cost.weight_wire_bytes, expected_weights(layout, kBlocks, kNumel * width));
              EXPECT_EQ(cost.loss_wire_bytes, losses + norm);
            }
          }
        }
      }
    }
  }
}

// The papers' own count, for one micro-batch: replicas, ZeRO-1 and 2 send twice the parameters, ZeRO-3 three times.
TEST(Zero, levels_1_and_2_send_what_replicas_do_and_level_3_half_as_much_again) {
  constexpr int kBlocks = 32, kShards = 4;
  const ModelCost model = toy_model(kBlocks, 64 * kShards);
  const auto sent = [&](ShardLevel level) {
    const StepCost cost = step_cost(build_program(model, {.shard = kShards, .shard_level = level}).of(0));
    return cost.gradient_wire_bytes + cost.weight_wire_bytes;
  };
  const int64_t once = kBlocks * 64 * kShards * 4 * (kShards - 1) / kShards;
  EXPECT_EQ(sent(none), 2 * once);
  EXPECT_EQ(sent(optimizer), 2 * once);
  EXPECT_EQ(sent(gradients), 2 * once);
  EXPECT_EQ(sent(parameters), 3 * once - once / kBlocks) << "the last block is gathered once";
}

}  // namespace
}  // namespace weft::zero_test
