#include "weft/nn/cost/measure_cost.h"

#include <ATen/ops/clamp.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/glu.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/median.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "tests/support/refusal.h"
#include "weft/models/gpt.h"
#include "weft/models/llama.h"
#include "weft/models/vision.h"
#include "weft/nn/cost/meta_kernels.h"

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

TEST(Cost, LlamaLayerCountsItsMatrixProducts) {
  const int64_t batch = 3, tokens = 32, width = 64, ffn = 96;
  Model model =
      llama({.layers = 2, .heads = 4, .kv_heads = 2, .width = width, .ffn = ffn, .context = tokens, .vocabulary = 100});
  const std::vector<MeasuredCost> costs = measure_cost(model, {meta({batch, tokens}, at::kLong)});
  const double projections = 2.0 * batch * tokens * (3 * width + 3 * ffn) * width;  // q and o whole, k and v half
  const double scores = 2.0 * 2.0 * batch * tokens * tokens * width;
  EXPECT_DOUBLE_EQ(costs[1].forward_flops, projections + scores);
  EXPECT_DOUBLE_EQ(costs[1].backward_flops, 2.0 * projections + 2.5 * scores);
  // One number per row of each norm, the second norm's input; q, k, v; attention's output and log-sums; gate and up. Cosines
  // and sines. The first norm's input is the layer's own.
  const double kept = batch * tokens * (2.0 + width + 2 * width + width + 4 + 2 * ffn) + tokens * 16;
  EXPECT_DOUBLE_EQ(static_cast<double>(costs[1].saved_bytes), 4.0 * kept);
}

/// As modules and exported models call it: a result with the strides that the CPU's has, and scores where that keeps them.
TEST(Cost, LibTorchsAttentionIsMeasuredAsItRuns) {
  const int64_t batch = 2, heads = 4, tokens = 32, width = 16;
  const auto made = [&](at::Device device, const std::optional<at::ScalarType>& type, double dropout, bool tokens_first) {
    const auto of_type = [&](at::ScalarType t) { return at::TensorOptions(t).device(device); };
    const at::Tensor q = at::zeros({batch, tokens, heads, width}, of_type(at::kFloat)).requires_grad_(true);
    std::optional<at::Tensor> mask;
    const at::Tensor heads_first = tokens_first ? q.permute({1, 2, 0, 3}) : q.transpose(1, 2);
    if (type)
      mask = at::zeros({1, heads_first.size(2), heads_first.size(2)}, of_type(*type)).expand({heads_first.size(0), 1, -1, -1});
    return at::scaled_dot_product_attention(heads_first, heads_first, heads_first, mask, dropout);
  };
  register_meta_kernels();
  for (const double dropout : {0.0, 0.1}) {
    for (const std::optional<at::ScalarType>& mask : {std::optional<at::ScalarType>(), {at::kFloat}, {at::kBool}}) {
      for (const bool tokens_first : {false, true}) {
        const at::Tensor real = made(at::kCPU, mask, dropout, tokens_first),
                         measured = made(at::kMeta, mask, dropout, tokens_first);
        EXPECT_EQ(measured.strides(), real.strides()) << mask.has_value() << dropout << tokens_first;
        EXPECT_EQ(measured.grad_fn()->name(), real.grad_fn()->name());
        measured.sum().backward();
      }
    }
  }
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

/// Positions of tokens within documents: an input of every block without its own memory, sent along with activations.
TEST(Cost, PlacesGoAlongTheChainAndAreKeptOnce) {
  const int64_t batch = 3, tokens = 32, width = 64, places = batch * tokens * 8;
  const std::vector<std::pair<Model, int64_t>> models = {
      {gpt({.layers = 2, .heads = 4, .width = width, .context = tokens, .vocabulary = 100}), 0},
      // Cosines and sines of each sample, not shared by all.
      {llama({.layers = 2, .heads = 4, .width = width, .ffn = 96, .context = tokens, .vocabulary = 100}),
       (batch - 1) * tokens * 16 * 4}};
  for (auto [model, more] : models) {
    const at::Tensor ids = meta({batch, tokens}, at::kLong);
    const std::vector<MeasuredCost> plain = measure_cost(model, {ids}),
                                    packed = measure_cost(model, {ids, meta({batch, tokens}, at::kLong)});
    for (size_t b = 0; b < packed.size(); ++b) {
      SCOPED_TRACE(model.name + " " + model.blocks[b].name);
      const bool hands_on = b + 1 < packed.size();
      EXPECT_EQ(packed[b].passed_bytes, hands_on ? places : 0);
      EXPECT_EQ(plain[b].passed_bytes, 0);
      EXPECT_EQ(packed[b].output_bytes, plain[b].output_bytes + packed[b].passed_bytes);
      EXPECT_EQ(packed[b].keeps_output, plain[b].keeps_output);
      EXPECT_DOUBLE_EQ(packed[b].forward_flops, plain[b].forward_flops) << "an upper bound: documents are not known";
      if (b == 1) {
        EXPECT_EQ(packed[b].saved_bytes, plain[b].saved_bytes + more);
      }
    }
  }
}

/// A block of one layer, whose outputs are what `end` makes of it.
class EndedBlock : public Block {
 public:
  explicit EndedBlock(std::function<Tensors(const at::Tensor&)> end) : end_(std::move(end)) {}
  std::vector<ParamSpec> parameters() override { return {{.name = "weight", .parameter = &weight_, .init = {}}}; }
  Tensors forward(const Tensors& inputs, const Context&) override { return end_(at::linear(inputs[0], weight_.value)); }

 private:
  std::function<Tensors(const at::Tensor&)> end_;
  Parameter weight_{.value = meta({8, 8}, at::kFloat), .gradient = {}};
};

std::vector<MeasuredCost> cost_of(std::function<Tensors(const at::Tensor&)> end) {
  Model model{.name = "ended", .blocks = {{"layer", "layer", std::make_shared<EndedBlock>(std::move(end))}}};
  return measure_cost(model, {meta({4, 8}, at::kFloat)});
}

TEST(Cost, OutputsThatShareMemoryAreKeptOnce) {
  const int64_t one = cost_of([](const at::Tensor& y) { return Tensors{y.tanh()}; })[0].saved_bytes;
  const auto twice = [](const at::Tensor& y) {
    const at::Tensor z = y.tanh();
    return Tensors{z, z, z.chunk(2, 1)[0]};
  };
  EXPECT_EQ(cost_of(twice)[0].saved_bytes, one);
}

/// Operators without kernels for the meta device; shapes, and gradients of the input.
TEST(Cost, OperatorsWithoutAMetaKernelAreMeasuredByRunningThem) {
  const std::function<at::Tensor(const at::Tensor&)> calls[] = {
      [](const at::Tensor& y) { return at::hardtanh(y); },   [](const at::Tensor& y) { return at::clamp(y, -1, 1); },
      [](const at::Tensor& y) { return at::glu(y, 1); },     [](const at::Tensor& y) { return std::get<0>(at::median(y, 1)); },
      [](const at::Tensor& y) { return at::nan_to_num(y); },
  };
  for (const auto& call : calls) {
    const at::Tensor real = call(at::ones({4, 8}));
    const MeasuredCost cost = cost_of([&](const at::Tensor& y) { return Tensors{call(y)}; })[0];
    EXPECT_TRUE(cost.has_gradient);
    EXPECT_EQ(cost.output_bytes, static_cast<int64_t>(real.nbytes())) << &call - calls;
  }
}

TEST(Cost, OutputsThatTrainNothingAreRefused) {
  EXPECT_NE(test::refusal([] { cost_of([](const at::Tensor& y) { return Tensors{y.detach()}; }); }).find("such as 'weight'"),
            std::string::npos);
  EXPECT_NE(test::refusal([] {
              cost_of([](const at::Tensor& y) { return Tensors{y.to(at::kComplexFloat)}; });
            }).find("outputs of block 'layer' are complex"),
            std::string::npos);
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

/// A block that does not state its kind and counts its runs.
class Wrapped : public Block {
 public:
  Wrapped(std::shared_ptr<Block> block, int& forwards) : block_(std::move(block)), forwards_(forwards) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    ++forwards_;
    return block_->forward(inputs, context);
  }
  std::vector<ParamSpec> parameters() override { return block_->parameters(); }
  bool can_recompute_parts() const override { return block_->can_recompute_parts(); }
  bool can_split_backward() const override { return block_->can_split_backward(); }

 protected:
  std::shared_ptr<Block> block_;
  int& forwards_;
};

/// The same, with the kind of the wrapped block.
class WrappedOfKind : public Wrapped, public HasKind {
 public:
  using Wrapped::Wrapped;
  std::string kind() const override { return dynamic_cast<const HasKind&>(*block_).kind(); }
};

template <typename Wrapper>
Model wrapped(Model model, int& forwards) {
  for (NamedBlock& named : model.blocks) {
    if (dynamic_cast<const HasKind*>(named.block.get()) != nullptr) {
      named.block = std::make_shared<Wrapper>(named.block, forwards);
    }
  }
  return model;
}

auto numbers(const MeasuredCost& c) {
  return std::tuple(c.forward_flops, c.backward_flops, c.saved_bytes, c.output_bytes, c.forward_peak_bytes,
                    c.backward_peak_bytes, c.input_flops, c.deferred_bytes);
}

// Every weft model, with blocks measured once per kind and each separately.
TEST(Cost, BlocksThatAreAlikeCostTheSame) {
  const Tensors tokens = {meta({3, 32}, at::kLong)}, images = {meta({5, 1, 28, 28}, at::kFloat)};
  const auto small_gpt = [](bool tied, double dropout) {
    return gpt(
        {.layers = 5, .heads = 2, .width = 16, .context = 32, .vocabulary = 50, .tied_embeddings = tied, .dropout = dropout});
  };
  const std::pair<std::function<Model()>, Tensors> models[] = {
      {[&] { return small_gpt(false, 0.0); }, tokens},
      {[&] { return small_gpt(true, 0.5); }, tokens},
      {[] { return llama({.layers = 5, .heads = 4, .kv_heads = 2, .width = 16, .context = 32, .vocabulary = 50}); }, tokens},
      {[] { return mlp({.inputs = 784, .width = 784, .layers = 6, .classes = 784}); }, images},
      {[] { return mlp({.inputs = 784, .width = 30, .layers = 4, .classes = 30}); }, images},
      {[] { return cnn({.width = 8}); }, images},
  };
  const CostOptions all_options[] = {{}, {.weight_dtype = at::kBFloat16, .layout = {.recompute_parts = true}}};
  for (const auto& [make, inputs] : models) {
    for (const CostOptions& options : all_options) {
      int forwards = 0;
      Model once = make(), each = wrapped<Wrapped>(make(), forwards);
      const std::vector<MeasuredCost> shared = measure_cost(once, inputs, options), own = measure_cost(each, inputs, options);
      ASSERT_EQ(shared.size(), own.size());
      for (size_t b = 0; b < own.size(); ++b) EXPECT_EQ(numbers(shared[b]), numbers(own[b])) << once.name << ", block " << b;
    }
  }
}

TEST(Cost, AThousandEqualLayersRunAsOne) {
  int forwards = 0;
  Model model =
      wrapped<WrappedOfKind>(gpt({.layers = 1000, .heads = 2, .width = 16, .context = 8, .vocabulary = 11}), forwards);
  EXPECT_EQ(measure_cost(model, {meta({1, 8}, at::kLong)}).size(), 1002u);
  EXPECT_EQ(forwards, 6) << "one beside another, and one for each form of backward: whole or in two parts, adding or not";
}

TEST(Cost, TheLossCostsOnTheMetaDeviceWhatItCostsForReal) {
  const Model model = gpt({.layers = 1, .heads = 1, .width = 4, .context = 8, .vocabulary = 1000});
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto peak = [&](at::Device device) {
      const at::Tensor logits = at::zeros({3, 8, 1000}, at::TensorOptions(dtype).device(device));
      return measure_loss(model, {logits}, at::zeros({3, 8}, at::TensorOptions(at::kLong).device(device))).peak_bytes;
    };
    EXPECT_EQ(peak(at::kMeta), peak(at::kCPU)) << dtype;
    EXPECT_GE(peak(at::kMeta), 3 * 8 * 1000 * 4);
  }
}

TEST(Cost, TheLossOfALargeVocabularyNeedsNoMemory) {
  const Model model = gpt({.layers = 1, .heads = 1, .width = 4, .context = 8, .vocabulary = 8});
  const int64_t peak =
      measure_loss(model, {meta({1 << 20, 8192, 128256}, at::kFloat)}, meta({1 << 20, 8192}, at::kLong)).peak_bytes;
  EXPECT_GE(peak, int64_t{1} * (1 << 20) * 8192 * 128256 * 4);
}

}  // namespace
}  // namespace weft
