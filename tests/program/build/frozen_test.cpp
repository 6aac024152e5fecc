// Weights without gradient: gathered if weights are sharded, and in no other instruction's bytes.
#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"
#include "weft/program/fingerprint.h"
#include "weft/program/memory.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

constexpr int kShards = 2;

/// Four blocks: one all frozen, one with some of both, one trained, one all frozen.
ModelCost some_frozen() {
  ModelCost model = toy_model(4);
  model.blocks[0].numel = model.blocks[3].numel = 0;
  model.blocks[0].frozen_numel = model.blocks[3].frozen_numel = 512;
  model.blocks[1].frozen_numel = 128;
  return model;
}

ModelCost without(ModelCost model) {
  for (BlockCost& block : model.blocks) block.frozen_numel = 0;
  return model;
}

Program program_of(const ModelCost& model, ShardLevel level) {
  const Program program =
      build_program(model, {.dp = 2, .shard = kShards, .shard_level = level, .prefetch = 1, .micro_batches = 2, .clip = true});
  verify(program);
  return program;
}

class FrozenWeights : public ::testing::TestWithParam<ShardLevel> {};

TEST_P(FrozenWeights, TakeWeightsAndNothingElse) {
  const Program with = program_of(some_frozen(), GetParam()), none = program_of(without(some_frozen()), GetParam());
  const StepCost cost = step_cost(with.of(0)), less = step_cost(none.of(0));
  EXPECT_EQ(cost.gradient_wire_bytes, less.gradient_wire_bytes);
  EXPECT_EQ(cost.num_reduces, less.num_reduces);
  const bool divided = GetParam() == ShardLevel::parameters;
  EXPECT_EQ(divided, cost.weight_wire_bytes > less.weight_wire_bytes);
  const MemoryEstimate memory = estimate_memory(with, 0, {}), smaller = estimate_memory(none, 0, {});
  for (const auto category : {MemoryCategory::gradients, MemoryCategory::optimizer}) {
    EXPECT_EQ(memory.of(category), smaller.of(category)) << name(category);
  }
  const int64_t frozen_bytes = 4 * (512 + 128 + 512);
  EXPECT_EQ(memory.of(MemoryCategory::weights) - smaller.of(MemoryCategory::weights),
            divided ? frozen_bytes / kShards : frozen_bytes);
  EXPECT_NE(fingerprint(with), fingerprint(none));
}

TEST_P(FrozenWeights, AreGatheredWhereTheyAreDivided) {
  Program program = program_of(some_frozen(), GetParam());
  if (GetParam() != ShardLevel::parameters) return;
  for (const Instruction& x : program.of(0)) {
    if (x.op == Op::gather) {
      EXPECT_EQ(x.wire_bytes, shard_bytes(4 * program.weight_numel(x.first), kShards)) << x.first;
    }
  }
  std::erase_if(program.lists[0],
                [](const Instruction& x) { return x.first == 0 && (x.op == Op::gather || x.op == Op::release); });
  for (Instruction& x : program.lists[0]) x.waits.clear();
  EXPECT_THROW(verify(program), VerifyError);
}

INSTANTIATE_TEST_SUITE_P(Levels, FrozenWeights,
                         ::testing::Values(ShardLevel::none, ShardLevel::optimizer, ShardLevel::gradients,
                                           ShardLevel::parameters),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace weft
