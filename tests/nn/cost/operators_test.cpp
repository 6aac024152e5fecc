// Operators of blocks, counted on the meta device for a GPU: products by shape, attention, bytes of everything else; as layouts
// change them.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/models/gpt.h"
#include "weft/models/llama.h"
#include "weft/models/vision.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/tensor_parallel/apply_splits.h"

namespace weft::operators_test {
namespace {

constexpr int64_t kBatch = 2, kTokens = 64, kRows = kBatch * kTokens, kWidth = 128, kHeads = 4, kVocabulary = 512;

at::Tensor meta(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::empty(sizes, at::TensorOptions(dtype).device(at::kMeta));
}

Model small_gpt(double dropout = 0.0) {
  return gpt(
      {.layers = 2, .heads = kHeads, .width = kWidth, .context = kTokens, .vocabulary = kVocabulary, .dropout = dropout});
}

CostOptions on_gpu(int tp = 1) {
  return {.weight_dtype = at::kBFloat16, .gradient_dtype = at::kBFloat16, .tp = tp, .device = TargetDevice::gpu};
}

std::vector<MeasuredCost> costs_of(Model model, const CostOptions& options, int64_t tokens = kTokens,
                                   Tensors* outputs = nullptr) {
  if (options.tp > 1) split_layers(model, options.tp, 0, 0);
  return measure_cost(model, {meta({kBatch, tokens}, at::kLong)}, options, outputs);
}

PassOperators of_kind(const PassOperators& all, OperatorKind kind) {
  PassOperators some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), [kind](const OperatorWork& x) { return x.kind == kind; });
  return some;
}

PassOperators of_class(const PassOperators& all, MemoryClass of, bool is_backward = false) {
  PassOperators some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), [&](const OperatorWork& x) {
    return x.kind == OperatorKind::memory && x.of == of && x.is_backward == is_backward;
  });
  return some;
}

/// How many products of these sizes.
int count(const PassOperators& all, int64_t rows, int64_t columns, int64_t inner) {
  int sum = 0;
  for (const OperatorWork& x : of_kind(all, OperatorKind::product)) {
    if (x.rows == rows && x.columns == columns && x.inner == inner && x.batch == 1) sum += x.count;
  }
  return sum;
}

double flops(const PassOperators& all) {
  double sum = 0.0;
  for (const OperatorWork& x : all) sum += x.count * x.flops() * (x.is_causal ? 2.0 : 1.0);
  return sum;
}

int64_t bytes(const PassOperators& all) {
  int64_t sum = 0;
  for (const OperatorWork& x : all) sum += x.count * x.bytes;
  return sum;
}

int launches(const PassOperators& all) {
  int sum = 0;
  for (const OperatorWork& x : all) sum += x.count;
  return sum;
}

int launches(const LaunchesByKernel& all) {
  int sum = 0;
  for (const auto& [kernel, number] : all) sum += number;
  return sum;
}

TEST(Operators, ALayersProductsHaveTheirShapes) {
  const BlockOperators of = costs_of(small_gpt(), on_gpu())[1].operators;
  const PassOperators& forward = of.of(BlockPass::forward);
  EXPECT_EQ(count(forward, kRows, 3 * kWidth, kWidth), 1) << "queries, keys and values";
  EXPECT_EQ(count(forward, kRows, kWidth, kWidth), 1);
  EXPECT_EQ(count(forward, kRows, 4 * kWidth, kWidth), 1);
  EXPECT_EQ(count(forward, kRows, kWidth, 4 * kWidth), 1);
  EXPECT_EQ(launches(of_kind(forward, OperatorKind::product)), 4);
  const PassOperators& backward = of.of(BlockPass::backward);
  EXPECT_EQ(count(backward, kRows, kWidth, 3 * kWidth), 1) << "gradient of the input";
  EXPECT_EQ(count(backward, 3 * kWidth, kWidth, kRows), 1) << "gradient of the weight";
  EXPECT_EQ(launches(of_kind(backward, OperatorKind::product)), 8);
  for (const OperatorWork& x : of_kind(backward, OperatorKind::product)) EXPECT_FALSE(x.adds);
  const PassOperators adding = of_kind(of.of(BlockPass::adding_backward), OperatorKind::product);
  EXPECT_EQ(std::count_if(adding.begin(), adding.end(), [](const OperatorWork& x) { return x.adds; }), 4)
      << "gradients of the weights are added to";
}

TEST(Operators, AttentionHasItsLengthsHeadsAndMask) {
  const BlockOperators of = costs_of(llama({.layers = 1,
                                            .heads = kHeads,
                                            .kv_heads = 2,
                                            .width = kWidth,
                                            .ffn = 256,
                                            .context = kTokens,
                                            .vocabulary = kVocabulary}),
                                     on_gpu())[1]
                                .operators;
  for (const bool is_backward : {false, true}) {
    const PassOperators all = of_kind(of.of(is_backward ? BlockPass::backward : BlockPass::forward), OperatorKind::attention);
    ASSERT_EQ(all.size(), 1u);
    const OperatorWork expected{.kind = OperatorKind::attention,
                                .is_backward = is_backward,
                                .is_causal = true,
                                .element_bytes = 2,
                                .batch = kBatch,
                                .rows = kTokens,
                                .columns = kTokens,
                                .inner = kWidth / kHeads,
                                .heads = kHeads,
                                .kv_heads = 2};
    EXPECT_EQ(all[0], expected);
  }
  EXPECT_FALSE(of_class(of.of(BlockPass::forward), MemoryClass::rotary).empty());
}

/// All that is launched is there, and does the operations that are counted without shapes.
TEST(Operators, AgreeWithOperationsAndLaunches) {
  for (const bool splits : {false, true}) {
    for (Model& model : std::vector<Model>{small_gpt(), small_gpt(0.1), cnn({.width = 8})}) {
      const bool is_image = model.name == "cnn";
      const at::Tensor input = is_image ? meta({5, 1, 28, 28}, at::kFloat) : meta({kBatch, kTokens}, at::kLong);
      CostOptions options = on_gpu();
      options.gradient_dtype = splits ? at::kFloat : at::kBFloat16;
      for (const MeasuredCost& cost : measure_cost(model, {input}, options)) {
        SCOPED_TRACE(model.name);
        EXPECT_DOUBLE_EQ(flops(cost.operators.of(BlockPass::forward)), cost.forward_flops);
        EXPECT_DOUBLE_EQ(flops(cost.operators.of(BlockPass::backward)), cost.backward_flops);
        EXPECT_EQ(launches(cost.operators.of(BlockPass::forward)), launches(cost.launches.forward));
        EXPECT_EQ(launches(cost.operators.of(BlockPass::adding_weight)) == 0, cost.launches.adding_weight.empty());
        if (is_image) continue;  // a convolution's backward is one launch and two products
        EXPECT_EQ(launches(cost.operators.of(BlockPass::input)), launches(cost.launches.input));
        EXPECT_EQ(flops(cost.operators.of(BlockPass::input)), cost.input_flops);
        EXPECT_DOUBLE_EQ(flops(cost.operators.of(BlockPass::input)) + flops(cost.operators.of(BlockPass::weight)),
                         cost.backward_flops);
      }
    }
  }
}

TEST(Operators, NormsAndActivationsReadAndWriteTheirTensors) {
  const PassOperators forward = costs_of(small_gpt(), on_gpu())[1].operators.of(BlockPass::forward);
  const int64_t stream = kRows * kWidth * 2;
  const PassOperators norms = of_class(forward, MemoryClass::norm);
  ASSERT_EQ(norms.size(), 2u);
  // Input and output, a scale and a mean in float32 per row, weight and bias; the second adds attention's output before.
  EXPECT_EQ(norms[0].bytes, 2 * stream + 2 * 4 * kRows + 2 * 2 * kWidth);
  EXPECT_EQ(norms[1].bytes, 4 * stream + 2 * 4 * kRows + 2 * 2 * kWidth);
  EXPECT_EQ(norms[0].elements, kRows * kWidth);
  const PassOperators gelu = of_class(forward, MemoryClass::activation);
  ASSERT_EQ(gelu.size(), 1u);
  EXPECT_EQ(gelu[0].bytes, 2 * 4 * stream);
  EXPECT_EQ(gelu[0].elements, 4 * kRows * kWidth);
}

TEST(Operators, PoolingReadsImagesAndKeepsIndices) {
  Model model = cnn({.width = 8});
  const std::vector<MeasuredCost> costs = measure_cost(model, {meta({5, 1, 28, 28}, at::kFloat)});
  const BlockOperators& of = costs[0].operators;
  const int64_t inputs = int64_t{5} * 8 * 28 * 28, outputs = inputs / 4;
  for (const bool is_backward : {false, true}) {
    const PassOperators pools =
        of_class(of.of(is_backward ? BlockPass::backward : BlockPass::forward), MemoryClass::pool, is_backward);
    ASSERT_EQ(pools.size(), 1u);
    EXPECT_EQ(pools[0].elements, inputs);
    EXPECT_EQ(pools[0].bytes, (is_backward ? 8 : 4) * inputs + (4 + 8) * outputs);
  }
}

TEST(Operators, AnEmbeddingReadsTheRowsThatItTakes) {
  Model model = small_gpt();
  const PassOperators rows =
      of_class(costs_of(std::move(model), on_gpu())[0].operators.of(BlockPass::forward), MemoryClass::embedding);
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows[0].bytes, 2 * kRows * kWidth * 2 + 8 * kRows) << "rows of 512 entries, and ids";
}

TEST(Operators, TensorParallelismDividesProductsAndHeads) {
  const BlockOperators of = costs_of(small_gpt(), on_gpu(2))[1].operators;
  const PassOperators& forward = of.of(BlockPass::forward);
  EXPECT_EQ(count(forward, kRows, 3 * kWidth / 2, kWidth), 1);
  EXPECT_EQ(count(forward, kRows, kWidth, kWidth / 2), 1);
  EXPECT_EQ(count(forward, kRows, 2 * kWidth, kWidth), 1);
  EXPECT_EQ(of_kind(forward, OperatorKind::attention)[0].heads, kHeads / 2);
  const int64_t whole = of_class(forward, MemoryClass::norm)[0].elements;
  EXPECT_EQ(whole, kRows * kWidth);
  CostOptions options = on_gpu(2);
  options.layout.sequence_parallel = true;
  const PassOperators shared = costs_of(small_gpt(), options)[1].operators.of(BlockPass::forward);
  EXPECT_EQ(of_class(shared, MemoryClass::norm)[0].elements, whole / 2) << "each rank has half of the tokens";
  EXPECT_EQ(count(shared, kRows, 3 * kWidth / 2, kWidth), 1) << "which are gathered for the product";
}

TEST(Operators, RingAttentionIsOneLaunchForEachPartOfTheKeys) {
  CostOptions options = on_gpu();
  options.cp = 2;
  options.layout.attention_over = ContextMethod::ring;
  const PassOperators all =
      of_kind(costs_of(small_gpt(), options, kTokens / 2)[1].operators.of(BlockPass::forward), OperatorKind::attention);
  const bool has_masked = std::any_of(all.begin(), all.end(), [](const OperatorWork& x) { return x.is_causal; });
  const bool has_whole = std::any_of(all.begin(), all.end(), [](const OperatorWork& x) { return !x.is_causal; });
  EXPECT_TRUE(has_masked && has_whole) << "its own keys are masked, others' parts are not";
}

TEST(Operators, RecomputedPartsRunAgainInBackward) {
  CostOptions options = on_gpu();
  const BlockOperators plain = costs_of(small_gpt(), options)[1].operators;
  options.layout.recompute_parts = true;
  const BlockOperators again = costs_of(small_gpt(), options)[1].operators;
  EXPECT_EQ(launches(of_kind(again.of(BlockPass::forward), OperatorKind::product)), 4);
  EXPECT_EQ(count(again.of(BlockPass::backward), kRows, 3 * kWidth, kWidth), 1) << "queries, keys and values";
  EXPECT_EQ(count(plain.of(BlockPass::backward), kRows, 3 * kWidth, kWidth), 0);
  EXPECT_EQ(launches(of_kind(again.of(BlockPass::backward), OperatorKind::attention)), 2) << "forward, then its gradient";
}

TEST(Operators, AChunkedLossIsInTheHead) {
  Tensors outputs;
  CostOptions options = on_gpu();
  const MeasuredCost whole = costs_of(small_gpt(), options, kTokens, &outputs).back();
  const Model model = small_gpt();
  const at::Tensor target = meta({kBatch, kTokens}, at::kLong);
  const PassOperators loss = measure_loss(model, outputs, target, options).operators;
  EXPECT_EQ(count(whole.operators.of(BlockPass::forward), kRows, kVocabulary, kWidth), 1);
  ASSERT_FALSE(of_class(loss, MemoryClass::loss).empty());
  EXPECT_GE(bytes(of_class(loss, MemoryClass::loss)), kRows * kVocabulary * 2) << "the logits";
  EXPECT_GE(bytes(of_class(loss, MemoryClass::loss, true)), 2 * kRows * kVocabulary * 2) << "and their gradient";
  options.layout.loss_chunk = kRows / 4;
  options.target = target;
  const MeasuredCost chunked = costs_of(small_gpt(), options).back();
  EXPECT_EQ(count(chunked.operators.of(BlockPass::forward), kRows / 4, kVocabulary, kWidth), 4);
  EXPECT_EQ(count(chunked.operators.of(BlockPass::backward), kRows / 4, kVocabulary, kWidth), 4) << "computed again";
  EXPECT_EQ(launches(of_class(chunked.operators.of(BlockPass::forward), MemoryClass::loss)), 4);
}

TEST(Operators, WideGradientsOfNarrowWeightsMoveMoreBytes) {
  CostOptions options = on_gpu();
  const BlockOperators narrow = costs_of(small_gpt(), options)[1].operators;
  options.gradient_dtype = at::kFloat;
  const BlockOperators wide = costs_of(small_gpt(), options)[1].operators;
  const int64_t weights = 12 * kWidth * kWidth;
  const auto others = [](const BlockOperators& of, BlockPass pass) {
    return bytes(of_kind(of.of(pass), OperatorKind::memory));
  };
  EXPECT_GE(others(wide, BlockPass::backward) - others(narrow, BlockPass::backward), (2 + 4) * weights)
      << "read, and written wider";
  EXPECT_GE(others(wide, BlockPass::adding_backward) - others(wide, BlockPass::backward), 4 * weights)
      << "the sums are read too";
}

TEST(Operators, OnACpuTheyAreThoseOfItsKernels) {
  Tensors outputs;
  const std::vector<MeasuredCost> costs = costs_of(small_gpt(0.1), {}, kTokens, &outputs);
  const PassOperators& forward = costs[1].operators.of(BlockPass::forward);
  const PassOperators& backward = costs[1].operators.of(BlockPass::backward);
  EXPECT_EQ(count(forward, kRows, 3 * kWidth, kWidth), 1) << "queries, keys and values";
  EXPECT_EQ(launches(of_kind(forward, OperatorKind::product)), 4);
  EXPECT_EQ(launches(of_kind(backward, OperatorKind::product)), 8);
  int turned = 0;
  for (const OperatorWork& x : of_kind(backward, OperatorKind::product)) turned += x.form == ProductForm::turned ? x.count : 0;
  EXPECT_EQ(turned, 4) << "gradients of weights";
  for (const PassOperators& pass : {forward, backward}) EXPECT_EQ(launches(of_kind(pass, OperatorKind::attention)), 1);
  constexpr int64_t kActivations = kRows * kWidth * 4;
  EXPECT_EQ(bytes(of_class(forward, MemoryClass::norm)), 2 * kActivations + 4 * kActivations) << "the second adds first";
  EXPECT_EQ(bytes(of_class(forward, MemoryClass::activation)), 2 * 4 * kActivations);
  EXPECT_EQ(bytes(of_class(forward, MemoryClass::dropout)), 2 * kRows * kWidth) << "masks";
  EXPECT_GE(bytes(of_class(backward, MemoryClass::norm, true)), 2 * 3 * kActivations);
  const at::Tensor target = meta({kBatch, kTokens}, at::kLong);
  const PassOperators loss = measure_loss(small_gpt(), outputs, target, {}).operators;
  EXPECT_EQ(bytes(of_class(loss, MemoryClass::loss)), 2 * kRows * kVocabulary * 4) << "the logits and their gradient";
}

TEST(Operators, ConvolutionsOfACpuHaveAForm) {
  Model model = cnn({.width = 8, .classes = 10});
  const BlockOperators of = measure_cost(model, {meta({4, 1, 28, 28}, at::kFloat)})[1].operators;
  std::vector<ProductForm> forms;
  for (const BlockPass pass : {BlockPass::forward, BlockPass::backward}) {
    for (const OperatorWork& x : of_kind(of.of(pass), OperatorKind::product)) {
      forms.push_back(x.form);
      EXPECT_EQ(x.window, 9);
    }
  }
  EXPECT_EQ(forms, (std::vector{ProductForm::convolution, ProductForm::image, ProductForm::filters}));
  // Batch norm: weft's passes over channels, or LibTorch's norm where the processor's images are not channels last.
  const auto is_there = [&](BlockPass pass, bool backward) {
    const auto classes = {MemoryClass::channels, MemoryClass::norm};
    return std::any_of(classes.begin(), classes.end(),
                       [&](MemoryClass one) { return !of_class(of.of(pass), one, backward).empty(); });
  };
  EXPECT_TRUE(is_there(BlockPass::forward, false));
  EXPECT_TRUE(is_there(BlockPass::backward, true));
}

}  // namespace
}  // namespace weft::operators_test
