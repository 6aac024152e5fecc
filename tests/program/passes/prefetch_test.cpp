// Distance that gathers are hoisted, and its limits.
#include "weft/program/passes/prefetch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/program/toy.h"
#include "weft/base/error.h"
#include "weft/program/cost.h"
#include "weft/program/passes/offload.h"
#include "weft/program/passes/shard_parameters.h"

namespace weft {
namespace {

constexpr int64_t kBlockBytes = 1024;  // of toy_model's blocks in float32

Program sharded(const ModelCost& model) { return toy_program(model, {.shard_level = ShardLevel::parameters, .shards = 2}); }

InstructionList gathered(const ModelCost& model, int micro_batches = 1) {
  return shard_parameters(one_stage(model, micro_batches), sharded(model), {});
}

std::string hoisted(int blocks, const PrefetchOptions& options) {
  const ModelCost model = toy_model(blocks);
  return text(prefetch(gathered(model), sharded(model), options).take());
}

int64_t most_gathered(const InstructionList& list, const Program& program) {
  int64_t live = 0, most = 0;
  for (const Instruction& x : list) {
    const int64_t bytes = program.block_numel[x.first] * program.weight_bytes;
    if (x.op == Op::gather) live += bytes;
    if (x.op == Op::release) live -= bytes;
    most = std::max(most, live);
  }
  return most;
}

TEST(Prefetch, starts_depth_blocks_early) {
  struct Case {
    int depth;
    const char* expected;
  };
  const Case cases[] = {
      {0,
       "load0 gather0 forward0.0 release0 gather1 forward1.0 release1 gather2 forward2.0 release2 gather3 forward3.0 loss0 "
       "backward3.0 release3 gather2 backward2.0 release2 gather1 backward1.0 release1 gather0 backward0.0 release0"},
      {1,
       "gather0 load0 gather1 forward0.0 release0 gather2 forward1.0 release1 gather3 forward2.0 release2 forward3.0 loss0 "
       "gather2 backward3.0 release3 gather1 backward2.0 release2 gather0 backward1.0 release1 backward0.0 release0"},
      // Block 2 is still in use two runs before its backward: it is gathered again as soon as it was released.
      {2,
       "gather0 gather1 load0 gather2 forward0.0 release0 gather3 forward1.0 release1 forward2.0 release2 gather2 "
       "forward3.0 loss0 gather1 backward3.0 release3 gather0 backward2.0 release2 backward1.0 release1 backward0.0 release0"},
  };
  for (const Case& c : cases) EXPECT_EQ(hoisted(4, {.depth = c.depth}), c.expected) << c.depth;
}

TEST(Prefetch, stays_within_the_byte_limit) {
  // Two blocks at once, though the depth would be three.
  EXPECT_EQ(hoisted(4, {.depth = 2, .max_bytes = 2 * kBlockBytes}),
            "gather0 gather1 load0 forward0.0 release0 gather2 forward1.0 release1 gather3 forward2.0 release2 gather2 "
            "forward3.0 loss0 backward3.0 release3 gather1 backward2.0 release2 gather0 backward1.0 release1 "
            "backward0.0 release0");
  EXPECT_EQ(hoisted(3, {.depth = 2, .max_bytes = kBlockBytes}),
            "gather0 load0 forward0.0 release0 gather1 forward1.0 release1 gather2 forward2.0 loss0 "
            "backward2.0 release2 gather1 backward1.0 release1 gather0 backward0.0 release0");
}

TEST(Prefetch, every_limit_holds) {
  for (int blocks : {1, 2, 5, 8}) {
    for (int micro_batches : {1, 3}) {
      for (int depth : {0, 1, 2, 5}) {
        for (int limit : {1, 2, 3}) {
          for (int width : {2, 4}) {
            const ModelCost model = toy_model(blocks);
            Program program = sharded(model);
            program.weight_bytes = width;
            const int64_t max_bytes = limit * 256 * width + 100;
            const InstructionList before = gathered(model, micro_batches);
            const InstructionList list = prefetch(before, program, {.depth = depth, .max_bytes = max_bytes}).take();
            const int most = std::min({blocks, depth + 1, limit});
            EXPECT_EQ(most_gathered(list, program), most * 256 * width) << blocks << " depth " << depth << " limit " << limit;
            EXPECT_EQ(step_cost(list).wire_bytes(), step_cost(before).wire_bytes());
            EXPECT_EQ(list.size(), before.size());
          }
        }
      }
    }
  }
}

TEST(Prefetch, a_limit_that_one_block_is_above) {
  ModelCost model = toy_model(3);
  model.blocks[1].numel = 512;
  const auto says = [&](const ModelCost& x, int64_t max_bytes) -> std::string {
    try {
      prefetch(gathered(x), sharded(x), {.max_bytes = max_bytes}).take();
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(says(model, 2 * kBlockBytes), "nothing");
  EXPECT_NE(says(model, 2 * kBlockBytes - 1).find("block 1 'layer1' they take 2.00 KiB"), std::string::npos);
  // Tied weights are gathered together with their reader's.
  EXPECT_EQ(says(tied_model(3), 2 * kBlockBytes), "nothing");
  EXPECT_NE(says(tied_model(3), kBlockBytes).find("block 2 'layer2' they take 2.00 KiB"), std::string::npos);
}

TEST(Prefetch, not_before_the_shard_is_back_from_slower_memory) {
  const ModelCost model = toy_model(2);
  const InstructionList list = offload_shards(gathered(model), {.weights = true});
  EXPECT_EQ(text(prefetch(list, sharded(model), {.depth = 2}).take()), text(list));
}

}  // namespace
}  // namespace weft
