// Models at the limits of 64-bit counts: accepted and verified, or refused in one line.
#include "weft/program/build/step_bytes.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/program/toy.h"
#include "weft/base/error.h"
#include "weft/program/build/build.h"
#include "weft/program/limits.h"
#include "weft/program/simulate/simulate.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

std::string refusal(const ModelCost& model, const StepLayout& layout) {
  try {
    const Program program = build_program(model, layout);
    verify(program);
    simulate(program, counted_operations());
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

ModelCost model_that_keeps(int blocks, int64_t saved_bytes) {
  ModelCost model = toy_model(blocks);
  for (BlockCost& block : model.blocks) block.saved_bytes = block.forward_peak_bytes = block.backward_peak_bytes = saved_bytes;
  return model;
}

// The limit applies to live bytes: a step allocates far more in total.
TEST(StepBytes, ActivationsOfAMicroBatchMayFillTheLimit) {
  EXPECT_EQ(refusal(model_that_keeps(4, kMostBytes / 5), {.micro_batches = 64}), "none");
  EXPECT_EQ(refusal(model_that_keeps(4, kMostBytes / 5), {.recompute = {.every = 1}, .micro_batches = 64}), "none");
  EXPECT_EQ(refusal(model_that_keeps(1, kMostBytes / 2), {.micro_batches = 64}), "none");
  const std::string line = refusal(model_that_keeps(4, kMostBytes / 3), {.micro_batches = 64});
  EXPECT_EQ(line,
            "layout: a step of 64 micro-batches per rank holds up to 1.5e+18 bytes of activations and sends up to 2.0e+04 of "
            "weights and gradients, more than the 1.2e+18 that can be counted; use fewer samples (batch.micro, batch.global) "
            "or a smaller model");
}

TEST(StepBytes, ElementsAreLimitedInAll) {
  EXPECT_EQ(refusal(toy_model(100, kMostElements / 128), {}), "none");
  EXPECT_EQ(
      refusal(toy_model(100, kMostElements / 64), {}),
      "model 'toy': its 100 blocks have 7.0e+15 elements, more than the 4.5e+15 that can be counted; use fewer or smaller "
      "blocks");
  EXPECT_EQ(refusal(toy_model(2, int64_t{1} << 60), {}),
            "model 'toy', block 0 'layer0': 1152921504606846976 elements, must be 0 to 4503599627370496");
}

TEST(StepBytes, WeightsGatheredForEachMicroBatchAreLimited) {
  StepLayout layout = {.shard = 2, .shard_level = ShardLevel::parameters, .micro_batches = 8};
  EXPECT_EQ(refusal(toy_model(4, kMostElements / 8), layout), "none");
  layout.micro_batches = 100;
  EXPECT_NE(refusal(toy_model(4, kMostElements / 8), layout).find("use fewer micro-batches (batch.micro"), std::string::npos);
}

TEST(StepBytes, NegativeCostsAreRefused) {
  ModelCost model = toy_model(3);
  model.blocks[1].saved_bytes = -1;
  EXPECT_NE(refusal(model, {}).find("block 1 'layer1': -1 bytes per micro-batch, must be 0 to"), std::string::npos);
}

}  // namespace
}  // namespace weft
