// Weights that stay divided over neighbours from forward to backward.
#include <gtest/gtest.h>

#include "tests/program/toy.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

Program inner_program(int micro_batches) {
  return build_program(
      toy_model(3),
      {.shard = 8, .shard_level = ShardLevel::parameters, .inner_shards = 2, .prefetch = 0, .micro_batches = micro_batches});
}

TEST(InnerShards, BackwardGathersOverNeighbours) {
  const Program program = inner_program(2);
  verify(program);
  int over_all = 0, over_inner = 0;
  for (const Instruction& x : program.lists[0]) {
    if (x.op != Op::gather) continue;
    const int64_t bytes = program.block_numel[x.first] * program.weight_bytes;
    (x.axes == kInnerAxis ? over_inner : over_all) += 1;
    EXPECT_EQ(x.wire_bytes, shard_bytes(bytes, x.axes == kInnerAxis ? 2 : 8));
  }
  // The last block stays from forward to backward, and so does the first from one micro-batch's backward to the next forward.
  EXPECT_EQ(over_all, 5);
  EXPECT_EQ(over_inner, 4);
}

TEST(InnerShards, AGatherNeedsThePartThatWasKept) {
  Program program = inner_program(1);
  for (Instruction& x : program.lists[0]) x.keeps_inner_shard = false;
  try {
    verify(program);
    FAIL() << "nothing was found";
  } catch (const VerifyError& error) {
    EXPECT_EQ(error.defect, Defect::bad_gather) << error.what();
  }
}

TEST(InnerShards, MustDivideTheShards) {
  EXPECT_THROW(build_program(toy_model(2), {.shard = 4, .shard_level = ShardLevel::parameters, .inner_shards = 3}), InputError);
}

}  // namespace
}  // namespace weft
