// Number of buffers that blocks share, and at most one block per buffer at any time.
#include "weft/program/buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/program/toy.h"
#include "weft/program/build/build.h"
#include "weft/program/edit.h"

namespace weft {
namespace {

using enum ShardLevel;

int distinct(const std::vector<int>& buffers) { return static_cast<int>(std::set<int>(buffers.begin(), buffers.end()).size()); }

TEST(Buffers, a_chain_takes_one_more_than_the_depth_of_prefetch) {
  for (int blocks : {1, 2, 3, 5, 6, 7, 12}) {
    for (int depth : {0, 1, 2, 3, 4}) {
      for (int micro_batches : {1, 2, 3}) {
        for (int every : {0, 1}) {
          const StepLayout layout = {.shard = 2,
                                     .shard_level = parameters,
                                     .prefetch = depth,
                                     .recompute = {.every = every},
                                     .micro_batches = micro_batches};
          const Program program = build_program(toy_model(blocks), layout);
          const int expected = std::min(blocks, depth + 1);
          EXPECT_EQ(distinct(program.buffers_of(0).weight), expected) << blocks << " blocks, depth " << depth;
          EXPECT_EQ(distinct(program.buffers_of(0).gradient), expected) << blocks << " blocks, depth " << depth;
        }
      }
    }
  }
}

TEST(Buffers, blocks_and_their_buffers) {
  struct Case {
    const char* what;
    ModelCost model;
    StepLayout layout;
    std::vector<int> weights, gradients;
  };
  ModelCost with_empty = toy_model(4);
  with_empty.blocks[1].numel = 0;
  const Case cases[] = {
      {"replicas", toy_model(3), {.shard = 2}, {}, {}},
      {"ZeRO-1", toy_model(3), {.shard = 2, .shard_level = optimizer}, {}, {}},
      {"ZeRO-2", toy_model(3), {.shard = 2, .shard_level = gradients}, {}, {0, 1, 0}},
      {"ZeRO-2, one by one", toy_model(3), {.shard = 2, .shard_level = gradients, .prefetch = 0}, {}, {0, 0, 0}},
      {"ZeRO-2, reduced at the end",
       toy_model(3),
       {.shard = 2, .shard_level = gradients, .keep_order = true, .micro_batches = 2},
       {},
       {0, 1, 2}},
      {"ZeRO-3", toy_model(4), {.shard = 2, .shard_level = parameters}, {0, 1, 0, 1}, {0, 1, 0, 1}},
      {"ZeRO-3, one by one, reduced at the end",
       toy_model(3),
       {.shard = 2, .shard_level = parameters, .prefetch = 0, .keep_order = true, .micro_batches = 2},
       {0, 0, 0},
       {0, 1, 2}},
      {"weights kept for backward",
       toy_model(3),
       {.shard = 2, .shard_level = parameters, .reshard_after_forward = false},
       {0, 1, 2},
       {0, 1, 0}},
      {"tied", tied_model(4), {.shard = 2, .shard_level = parameters, .prefetch = 0}, {0, 0, 0, 1}, {0, 1, 1, 1}},
      {"without parameters", with_empty, {.shard = 2, .shard_level = parameters}, {0, 0, 0, 1}, {0, 0, 0, 1}},
  };
  for (const Case& c : cases) {
    const Program program = build_program(c.model, c.layout);
    EXPECT_EQ(program.buffers_of(0).weight, c.weights) << c.what;
    EXPECT_EQ(program.buffers_of(0).gradient, c.gradients) << c.what;
  }
}

// Tracks, in list order and without the waits that verify() reads, the block in each buffer.
TEST(Buffers, hold_one_block_at_a_time) {
  for (bool tied : {false, true}) {
    for (bool reshard : {false, true}) {
      for (bool keep_order : {false, true}) {
        for (int prefetch : {0, 1, 2, 3}) {
          const ModelCost model = tied ? tied_model(6) : toy_model(6);
          const Program program = build_program(model, {.shard = 2,
                                                        .shard_level = parameters,
                                                        .reshard_after_forward = reshard,
                                                        .prefetch = prefetch,
                                                        .keep_order = keep_order,
                                                        .micro_batches = 3});
          const Buffers& buffers = program.buffers_of(0);
          std::vector<int> weights(6, -1), gradients(6, -1);  // the block in a buffer
          for (const Instruction& x : program.of(0)) {
            if (x.op == Op::gather) {
              EXPECT_EQ(weights[buffers.weight[x.first]], -1) << text(x);
              weights[buffers.weight[x.first]] = x.first;
            }
            if (x.op == Op::release) weights[buffers.weight[x.first]] = -1;
            for (int block = 0; block < 6 && x.op == Op::backward; ++block) {
              if (!reads_weights(x, block, program.block_uses)) continue;
              int& there = gradients[buffers.gradient[block]];
              EXPECT_TRUE(there == -1 || there == block) << text(x) << " finds the gradients of " << there;
              there = block;
            }
            if (x.op == Op::reduce_scatter) gradients[buffers.gradient[x.first]] = -1;
          }
          EXPECT_EQ(distinct(weights), 1) << "something is left in a buffer";
          EXPECT_EQ(distinct(gradients), 1) << "something is left in a buffer";
        }
      }
    }
  }
}

TEST(Buffers, are_as_large_as_their_largest_block) {
  EXPECT_EQ(buffer_bytes({0, 1, 0, 1}, {10, 20, 30, 5}), 30 + 20);
  EXPECT_EQ(buffer_bytes({0, 0, 0}, {10, 20, 5}), 20);
  EXPECT_EQ(buffer_bytes({}, {10, 20, 5}), 35) << "each has its own";
  EXPECT_EQ(buffer_bytes({}, {}), 0);
}

}  // namespace
}  // namespace weft
