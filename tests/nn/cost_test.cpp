#include "weft/nn/cost.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "weft/models/gpt.h"
#include "weft/models/vision.h"

namespace weft {
namespace {

at::Tensor meta(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::empty(sizes, at::TensorOptions(dtype).device(at::kMeta));
}

TEST(Cost, GptLayerCountsItsMatrixProducts) {
  const int64_t batch = 3, tokens = 32, width = 64;
  Model model = gpt({.layers = 2, .heads = 4, .width = width, .context = tokens, .vocabulary = 100});
  const std::vector<MeasuredCost> costs = measure_cost(model, {meta({batch, tokens}, at::kLong)});
  ASSERT_EQ(costs.size(), 4u);
  const double projections = 2.0 * batch * tokens * 12 * width * width;  // qkv 3, out 1, up 4, down 4
  const double scores = 2.0 * 2.0 * batch * tokens * tokens * width;
  EXPECT_DOUBLE_EQ(costs[1].forward_flops, projections + scores);
  EXPECT_DOUBLE_EQ(costs[1].backward_flops, 2.0 * projections + 2.5 * scores);
  EXPECT_EQ(costs[1].output_bytes, batch * tokens * width * 4);
  EXPECT_DOUBLE_EQ(costs[0].forward_flops, 0.0);
  EXPECT_DOUBLE_EQ(costs[3].forward_flops, 2.0 * batch * tokens * width * 100);
}

TEST(Cost, ConvolutionCountsEveryMultiplyAddTwice) {
  Model model = cnn({.width = 8});
  const std::vector<MeasuredCost> costs = measure_cost(model, {meta({5, 1, 28, 28}, at::kFloat)});
  const double first = 2.0 * 5 * 8 * 28 * 28 * 9;
  EXPECT_DOUBLE_EQ(costs[0].forward_flops, first);
  EXPECT_DOUBLE_EQ(costs[0].backward_flops, first);  // images take no gradient
  const double second = 2.0 * 5 * 16 * 14 * 14 * 8 * 9;
  EXPECT_DOUBLE_EQ(costs[1].forward_flops, second);
  EXPECT_DOUBLE_EQ(costs[1].backward_flops, 2.0 * second);
}

TEST(Cost, SavedBytesGrowWithTheMicroBatch) {
  Model model = gpt({.layers = 1, .heads = 2, .width = 16, .context = 8, .vocabulary = 11});
  const int64_t one = measure_cost(model, {meta({1, 8}, at::kLong)})[1].saved_bytes;
  const int64_t four = measure_cost(model, {meta({4, 8}, at::kLong)})[1].saved_bytes;
  EXPECT_GT(one, 0);
  EXPECT_EQ(four, 4 * one);
}

TEST(Cost, AHugeModelNeedsNoMemory) {
  Model model = gpt({.layers = 96, .heads = 96, .width = 12288, .context = 2048, .vocabulary = 50257});  // 175 B parameters
  const std::vector<MeasuredCost> costs = measure_cost(model, {meta({1, 2048}, at::kLong)});
  EXPECT_EQ(costs.size(), 98u);
  EXPECT_GT(costs[50].forward_flops, 7e12);
}

}  // namespace
}  // namespace weft
