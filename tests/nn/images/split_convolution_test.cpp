// Traffic of convolutions split over tp, by the formulas of nn/images/convolution.h, and refusal without its ranks.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "tests/nn/bound_layer.h"
#include "tests/nn/recorded_calls.h"
#include "tests/support/refusal.h"
#include "weft/models/vision.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/tensor_parallel/apply_splits.h"

namespace weft::split_convolution_test {
namespace {

at::Tensor meta(at::IntArrayRef sizes) { return at::empty(sizes, at::TensorOptions(at::kFloat).device(at::kMeta)); }

TEST(SplitConvolution, SendsWhatItsHeaderSays) {
  const int64_t batch = 5, width = 8, pixels = 14 * 14;
  for (const int tp : {2, 4}) {
    Model model = cnn({.width = width});
    split_layers(model, tp, 0);
    const BlockTraffic traffic = measure_cost(model, {meta({batch, 1, 28, 28})}, {.tp = tp})[1].traffic;
    const int64_t input = batch * width * pixels * 4, output = 2 * input;
    EXPECT_EQ(sent(traffic.forward), (std::vector<RecordedCall>{{"tp", tp - 1, output / tp * (tp - 1)}})) << "an all-gather";
    EXPECT_EQ(sent(traffic.backward), (std::vector<RecordedCall>{{"tp", 2 * (tp - 1), 2 * (input / tp * (tp - 1))}}))
        << "an all-reduce";
  }
}

TEST(SplitConvolution, DividesWeightsAndOperations) {
  const auto second_stage = [](int tp) {
    Model model = cnn({.width = 8});
    split_layers(model, tp, 0);
    return measure_cost(model, {meta({5, 1, 28, 28})}, {.tp = tp})[1];
  };
  EXPECT_DOUBLE_EQ(second_stage(2).forward_flops, second_stage(1).forward_flops / 2);
  EXPECT_DOUBLE_EQ(second_stage(4).backward_flops, second_stage(1).backward_flops / 4);
}

/// A custom block that ignores splits, with a split table.
TEST(SplitLayers, ThatRunWithoutAContextAreRefused) {
  Linear line(4, 4);
  Conv2d filter(4, 4, 3);
  Embedding rows(4, 4, 1.0);
  const Split split{.segments = {4}, .parts = 2, .layer = "layer"};
  line.weight.split = filter.weight.split = rows.weight.split = split;
  const std::vector<std::function<void()>> calls = {
      [&] {
        line(meta({4, 4}));
      },
      [&] {
        filter(meta({1, 4, 6, 6}));
      },
      [&] { rows(meta({4}).to(at::kLong)); },
  };
  for (const auto& call : calls) {
    EXPECT_NE(test::refusal(call).find("layer layer: it is split over 2 ranks, but its block calls it without a Context"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace weft::split_convolution_test
