// All layouts, in small: each builds, verifies, and stays within its buffers.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/program/toy.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

// Tied weights, a block without parameters, sizes that do not divide.
std::vector<ModelCost> models() {
  std::vector<ModelCost> result = {toy_model(1, 1000), toy_model(5, 1000), tied_model(5, 1000), toy_model(3, 0)};
  result[1].blocks[0].numel = 0;
  result[1].blocks[2].gathered_gradient_bytes = result[1].blocks[3].gathered_gradient_bytes = 2;
  result[2].blocks[3].numel = 0;
  return result;
}

std::vector<StepLayout> layouts_of(ShardLevel level) {
  std::vector<StepLayout> result;
  const bool whole = level != ShardLevel::parameters;
  for (int shard : {1, 2, 4}) {
    for (int dp : {1, 3}) {
      for (int slots : {1, 2}) {
        for (int micro_batches : {slots, 3 * slots}) {
          for (int every : {0, 1, 2}) {
            for (int prefetch : {0, 1, 2}) {
              for (int flags = 0; flags < 8; ++flags) {
                const bool offloads = (flags & 1) != 0, reshard = (flags & 2) != 0, keep = (flags & 4) != 0;
                if (whole && (prefetch == 2 || !reshard)) continue;  // no effect there
                if (slots > 1 && !keep) continue;                    // slots are for the order of sums
                result.push_back({.dp = dp,
                                  .shard = shard,
                                  .shard_level = level,
                                  .reshard_after_forward = reshard,
                                  .prefetch = prefetch,
                                  .recompute = {.every = every},
                                  .offload = {.activations = offloads, .optimizer = offloads, .weights = offloads && !whole},
                                  .keep_order = keep,
                                  .micro_batches = micro_batches,
                                  .slots = slots,
                                  .bucket_bytes = 5000,
                                  .clip = every == 1,
                                  .noise_scale = every == 2});
              }
            }
          }
        }
      }
    }
  }
  return result;
}

std::string describe(const StepLayout& x) {
  return fmt::format("level {}, {} shards, {} replicas, {} micro-batches, {} slots, recompute {}, prefetch {}, {} {} {}",
                     name(x.shard_level), x.shard, x.dp, x.micro_batches, x.slots, x.recompute.every, x.prefetch,
                     x.offload.optimizer ? "offload" : "", x.reshard_after_forward ? "reshard" : "",
                     x.keep_order ? "keep_order" : "");
}

class Layouts : public testing::TestWithParam<ShardLevel> {};

TEST_P(Layouts, all_verify) {
  const std::vector<StepLayout> layouts = layouts_of(GetParam());
  EXPECT_GE(layouts.size(), 200u);
  for (const ModelCost& model : models()) {
    for (const StepLayout& layout : layouts) {
      const Program program = build_program(model, layout);
      ASSERT_NO_THROW(verify(program)) << describe(layout) << "\n" << text(program.of(0));
    }
  }
}

// Compute is the same in all layouts: they differ in what each rank holds and moves.
TEST_P(Layouts, all_do_the_same_work) {
  const ModelCost model = tied_model(5, 1000);
  for (const StepLayout& layout : layouts_of(GetParam())) {
    const StepCost one = step_cost(build_program(model, {.recompute = layout.recompute}).of(0));
    const InstructionList list = build_program(model, layout).of(0);
    const StepCost cost = step_cost(list);
    ASSERT_DOUBLE_EQ(cost.flops(), layout.micro_batches * one.flops()) << describe(layout);
    int64_t live = 0;
    for (const Instruction& x : list) live += x.allocates - x.frees;
    ASSERT_EQ(live, 0) << describe(layout);
    if (layout.dp * layout.shard == 1) {
      ASSERT_EQ(cost.wire_bytes(), 0) << describe(layout);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Layouts,
                         testing::Values(ShardLevel::none, ShardLevel::optimizer, ShardLevel::gradients,
                                         ShardLevel::parameters),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace weft
