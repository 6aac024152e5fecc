// Every operation of the kernel table, planned on the meta device: for a CPU it costs what the same block costs on CPU tensors,
// for a GPU what the operators there keep and need, worked out tensor by tensor.
#include "weft/nn/kernels/kernel_table.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "weft/models/gpt.h"
#include "weft/models/llama.h"
#include "weft/models/resnet.h"
#include "weft/models/vision.h"
#include "weft/nn/attention/attention.h"
#include "weft/nn/attention/fused.h"
#include "weft/nn/attention/heads.h"
#include "weft/nn/attention/within_documents.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/cost/meta_kernels.h"
#include "weft/nn/functional/gelu.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/images/batch_norm.h"
#include "weft/nn/images/channels_last.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/loss/split_cross_entropy.h"
#include "weft/nn/tensor_parallel/apply_splits.h"

namespace weft::kernel_table_test {
namespace {

constexpr int64_t kBatch = 2, kTokens = 64, kHeads = 4, kHead = 16, kWidth = kHeads * kHead, kRows = kBatch * kTokens;
constexpr int64_t kGranule = 512;

using Operate =
    std::function<at::Tensor(const Tensors& inputs, const std::vector<Parameter>& parameters, const Context& context)>;

/// A block of one operation, with parameters [size].
class OneOperation : public Block {
 public:
  OneOperation(Operate operate, const std::vector<int64_t>& sizes, at::Device device) : operate_(std::move(operate)) {
    for (const int64_t size : sizes)
      parameters_.push_back({at::zeros({size}, at::TensorOptions(at::kFloat).device(device)), {}});
  }
  Tensors forward(const Tensors& inputs, const Context& context) override { return {operate_(inputs, parameters_, context)}; }
  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    for (Parameter& parameter : parameters_) specs.push_back({fmt::format("p{}", specs.size()), &parameter, {}});
    return specs;
  }

 private:
  Operate operate_;
  std::vector<Parameter> parameters_;
};

struct Row {
  const char* name;
  Operate operate;
  std::vector<int64_t> input;       ///< sizes of the input
  std::vector<int64_t> parameters;  ///< sizes
  at::ScalarType type;              ///< of input and parameters
  int64_t cpu_keeps, gpu_keeps;     ///< bytes for backward
  int64_t gpu_backward;             ///< bytes at the peak of backward; 0: not checked
};

MeasuredCost cost_of(const Row& row, at::Device device, TargetDevice target) {
  Model model{.name = row.name};
  model.blocks.push_back({"one", "", std::make_shared<OneOperation>(row.operate, row.parameters, device)});
  const at::Tensor x = at::zeros(row.input, at::TensorOptions(row.type).device(device));
  return measure_cost(model, {x.requires_grad_(true)},
                      {.weight_dtype = row.type,
                       .gradient_dtype = row.type,
                       .cp = row.name == std::string("ring") ? 2 : 1,
                       .layout = {.attention_over = ContextMethod::ring},
                       .device = target})[0];
}

std::vector<Row> rows() {
  const std::vector<int64_t> qkv = {kBatch, kTokens, 3 * kWidth}, x = {kBatch, kTokens, kWidth};
  const auto attend = [](const Tensors& in, const auto&, const Context&) { return attention(in[0], kHeads); };
  const auto within = [](const Tensors& in, const auto&, const Context&) {
    return document_attention(in[0], kHeads,
                              {{.sample = 0, .begin = 0, .tokens = 24},
                               {.sample = 0, .begin = 24, .tokens = 40},
                               {.sample = 1, .begin = 0, .tokens = 64}});
  };
  const auto ring = [](const Tensors& in, const auto&, const Context& context) {
    return attention(in[0], kHeads, context, "test");
  };
  const auto layer_norm = [](const Tensors& in, const std::vector<Parameter>& p, const Context&) {
    return normalise(in[0], {p[0].value, p[1].value});
  };
  const auto rms_norm = [](const Tensors& in, const std::vector<Parameter>& p, const Context&) {
    return normalise(in[0], {p[0].value});
  };
  const auto activate = [](const Tensors& in, const auto&, const Context&) { return weft::gelu(in[0]); };
  const auto turn = [](const Tensors& in, const auto&, const Context&) {
    const at::TensorOptions constant = in[0].options().requires_grad(false);
    const at::Tensor cos = at::zeros({kTokens, kHead / 2}, constant), sin = at::zeros({kTokens, kHead / 2}, constant);
    return rotate(in[0], {cos, sin});
  };
  const auto norm_groups = [](const Tensors& in, const std::vector<Parameter>& p, const Context&) {
    return at::group_norm(in[0], 4, p[0].value, p[1].value);
  };
  const auto norm_images = [](const Tensors& in, const std::vector<Parameter>& p, const Context& context) {
    const at::TensorOptions constant = p[0].value.options().requires_grad(false);
    return batch_norm_relu(channels_last(in[0]), {p[0].value, p[1].value, at::zeros({8}, constant), at::ones({8}, constant)},
                           context);
  };

  // Bytes of a tensor like x, of a log-sum per query and head, and of the numbers from which dropout is drawn.
  constexpr int64_t n = kRows * kWidth * 4, half = n / 2, sums = kRows * kHeads * 4, seeds = 2 * kGranule;
  // Of flash attention in backward: a number per query, the gradient of the queries in float32, 64 of them as 128 and 16 wide
  // as 32.
  constexpr int64_t flash = kBatch * kHeads * 128 * 4 + kBatch * 128 * kHeads * 32 * 4;
  const bool by_pixels = is_better_channels_last(at::empty({1, 1, 1, 1}));  // weft's batch norm, not LibTorch's
  constexpr int64_t image = kBatch * 8 * 16 * 16 * 4;
  return {
      // output, its gradient, those of queries, keys and values, and these joined
      {"attention", attend, qkv, {}, at::kFloat, sums, sums + seeds, 8 * n},
      {"attention", attend, qkv, {}, at::kBFloat16, sums, sums + seeds, 5 * half + sums + seeds + flash},
      // each document's output, and log-sums of 24, 40 and 64 queries, which memory-efficient attention rounds up to 32
      {"documents", within, qkv, {}, at::kFloat, sums, n + kHeads * (32 + 64 + 64) * 4 + 3 * seeds, 8 * n},
      {"documents", within, qkv, {}, at::kBFloat16, sums, half + 5 * kGranule + 3 * seeds, 0},
      {"ring", ring, qkv, {}, at::kFloat, sums, sums, 0},
      {"ring", ring, qkv, {}, at::kBFloat16, sums, sums, 0},
      {"layer norm", layer_norm, x, {kWidth, kWidth}, at::kFloat, 2 * kRows * 4, 2 * kRows * 4, 3 * n + 4 * kGranule},
      {"layer norm", layer_norm, x, {kWidth, kWidth}, at::kBFloat16, 2 * kRows * 4, 2 * kRows * 4, 3 * half + 4 * kGranule},
      {"RMS norm", rms_norm, x, {kWidth}, at::kFloat, kRows * 4, kRows * 4, 3 * n + 2 * kGranule},
      {"RMS norm", rms_norm, x, {kWidth}, at::kBFloat16, kRows * 4, kRows * 4, 0},
      {"gelu", activate, x, {}, at::kFloat, 0, 0, 3 * n},
      {"gelu", activate, x, {}, at::kBFloat16, 0, 0, 3 * half},
      {"rotary",
       turn,
       {kBatch, kHeads, kTokens, kHead},
       {},
       at::kFloat,
       kTokens * kHead * 4,
       kTokens * kHead * 4,
       3 * n + kTokens * kHead * 4},
      {"group norm", norm_groups, {kBatch, 8, 16, 16}, {8, 8}, at::kFloat, 2 * kBatch * 4 * 4, 2 * kGranule, 0},
      // weft's keeps y, mean and variance, and the sums and the count that they are from
      {"batch norm",
       norm_images,
       {kBatch, 8, 16, 16},
       {8, 8},
       at::kFloat,
       by_pixels ? image + 2 * 8 * 4 + (2 * 8 + 1) * 8 : 4 * 8 * 4,
       4 * kGranule,
       4 * image + 6 * kGranule},
  };
}

void expect_same(const MeasuredCost& planned, const MeasuredCost& measured) {
  EXPECT_EQ(planned.saved_bytes, measured.saved_bytes);
  EXPECT_EQ(planned.forward_peak_bytes, measured.forward_peak_bytes);
  EXPECT_EQ(planned.backward_peak_bytes, measured.backward_peak_bytes);
  EXPECT_EQ(planned.keeps_output, measured.keeps_output);
}

void expect_rows() {
  for (const Row& row : rows()) {
    SCOPED_TRACE(fmt::format("{} {}", row.name, at::toString(row.type)));
    const MeasuredCost for_cpu = cost_of(row, at::kMeta, TargetDevice::cpu),
                       for_gpu = cost_of(row, at::kMeta, TargetDevice::gpu);
    expect_same(for_cpu, cost_of(row, at::kCPU, TargetDevice::cpu));
    EXPECT_EQ(for_cpu.saved_bytes, row.cpu_keeps);
    EXPECT_EQ(for_gpu.saved_bytes, row.gpu_keeps);
    if (row.gpu_backward > 0) {
      EXPECT_EQ(for_gpu.backward_peak_bytes, row.gpu_backward);
    }
    EXPECT_DOUBLE_EQ(for_gpu.forward_flops, for_cpu.forward_flops);
    EXPECT_DOUBLE_EQ(for_gpu.backward_flops, for_cpu.backward_flops);
  }
}

// Without oneDNN as on processors without AVX-512, whose images stay channel by channel.
TEST(KernelTable, EachOperationCostsWhatItsKernelOnTheTargetKeepsAndNeeds) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // planned scratch is that of one thread
  expect_rows();
  const bool enabled = at::globalContext().userEnabledMkldnn();
  at::globalContext().setUserEnabledMkldnn(false);
  expect_rows();
  at::globalContext().setUserEnabledMkldnn(enabled);
  at::set_num_threads(threads);
}

/// 131 072 tokens shared by 8 ranks, 32 query heads of 128 over 8 kv heads, in bfloat16: the memory of the formula on
/// nn/attention/over_ranks.h and of flash attention (nn/attention/fused_pieces.h), without scores.
TEST(KernelTable, LongContextsOverRanksTakeNoScores) {
  constexpr int64_t kOwn = 131072 / 8, kLong = 32, kKv = 8, kWide = 128, kOwnHead = kOwn * kWide;  // elements per head
  const auto attend = [](const Tensors& in, const auto&, const Context& context) {
    const std::vector<at::Tensor> qkv = in[0].split_with_sizes({kLong * kWide, kKv * kWide, kKv * kWide}, 2);
    return attention(as_heads(qkv[0], kLong), as_heads(qkv[1], kKv), as_heads(qkv[2], kKv), context, "test");
  };
  Model model{.name = "long"};
  model.blocks.push_back({"one", "", std::make_shared<OneOperation>(attend, std::vector<int64_t>{}, at::kMeta)});
  const at::Tensor x = at::zeros({1, kOwn, (kLong + 2 * kKv) * kWide}, at::TensorOptions(at::kBFloat16).device(at::kMeta));
  const MeasuredCost cost = measure_cost(model, {x.requires_grad_(true)},
                                         {.weight_dtype = at::kBFloat16,
                                          .gradient_dtype = at::kBFloat16,
                                          .cp = 8,
                                          .layout = {.attention_over = ContextMethod::ring},
                                          .device = TargetDevice::gpu})[0];
  const int64_t sums = 4 * kLong * kOwn;
  EXPECT_EQ(cost.saved_bytes, sums);
  const int64_t forward = 2 * 4 * kKv * kOwnHead + 2 * 4 * kLong * kOwnHead + 3 * sums;
  const int64_t backward = 2 * 4 * kKv * kOwnHead + 4 * (6 * kKv + kLong) * kOwnHead  // travelling, and sums
                           + 2 * (kLong + 2 * kKv) * kOwnHead                         // gradients of a piece
                           + 4 * kLong * kOwnHead + 2 * 2 * kLong * kOwnHead;         // flash attention's scratch
  EXPECT_LT(static_cast<double>(cost.forward_peak_bytes), 1.2 * static_cast<double>(forward));
  EXPECT_LT(static_cast<double>(cost.backward_peak_bytes), 1.2 * static_cast<double>(backward));
}

TEST(KernelTable, CrossEntropyMakesNoTensorOfTheLogitsSizeButTheGradient) {
  constexpr int64_t kClasses = 1000, kLogits = kRows * kClasses * 4;
  Model model = mlp({});
  const auto peak = [&](at::Device device, TargetDevice target, at::ScalarType type) {
    const at::Tensor logits = at::zeros({kRows, kClasses}, at::TensorOptions(device).dtype(type));
    return measure_loss(model, {logits}, at::zeros({kRows}, at::TensorOptions(at::kLong).device(device)), {.device = target})
        .peak_bytes;
  };
  EXPECT_EQ(peak(at::kMeta, TargetDevice::cpu, at::kFloat), peak(at::kCPU, TargetDevice::cpu, at::kFloat));
  EXPECT_EQ(peak(at::kMeta, TargetDevice::cpu, at::kFloat) / kLogits, 1) << "the gradient";
  EXPECT_EQ(peak(at::kMeta, TargetDevice::gpu, at::kFloat) / kLogits, 1) << "the gradient";
  model.loss = vocabulary_cross_entropy(kClasses);
  EXPECT_EQ(peak(at::kMeta, TargetDevice::gpu, at::kBFloat16) / (kLogits / 2), 1) << "the gradient, in the logits' type";
}

TEST(KernelTable, ATargetHoldsOnOneThreadUntilItsScopeEnds) {
  EXPECT_EQ(target_of(at::kCPU), TargetDevice::cpu);
  EXPECT_EQ(target_of(at::kMeta), TargetDevice::cpu);
  for (const at::Device device : {at::Device(at::kCUDA, 0), at::Device(at::kXPU, 1), at::Device(at::kPrivateUse1, 0)}) {
    EXPECT_EQ(target_of(device), TargetDevice::gpu) << device;
    EXPECT_FALSE(has_weft_kernel(ModelOperation::norm, device)) << device;
  }
  {
    const TargetScope scope(TargetDevice::gpu);
    EXPECT_EQ(target_of(at::kMeta), TargetDevice::gpu);
    EXPECT_EQ(target_of(at::kCPU), TargetDevice::cpu);
    std::thread([] { EXPECT_EQ(target_of(at::kMeta), TargetDevice::cpu); }).join();
    const TargetScope inner(TargetDevice::cpu);
    EXPECT_EQ(target_of(at::kMeta), TargetDevice::cpu);
  }
  EXPECT_EQ(target_of(at::kMeta), TargetDevice::cpu);
  for (size_t i = 0; i < kOperations; ++i) {
    const auto operation = static_cast<ModelOperation>(i);
    EXPECT_TRUE(has_weft_kernel(operation, at::kCPU)) << row_of(operation).name;
    for (const OperationKernel& on : row_of(operation).on)
      EXPECT_FALSE(on.keeps.empty() || on.scratch.empty()) << row_of(operation).name;
  }
}

TEST(KernelTable, IsOnThePage) {
  std::ifstream file(WEFT_SOURCE "/docs/memory.md");
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto kernel = [](const OperationKernel& on) {
    const char* const names[] = {"weft's own", "operators", "fused operator", "device kernel"};
    return fmt::format("{} | {} | {}", names[static_cast<size_t>(on.kernel)], on.keeps, on.scratch);
  };
  for (size_t i = 0; i < kOperations; ++i) {
    const OperationRow& row = row_of(static_cast<ModelOperation>(i));
    const std::string line = fmt::format("| {} | {} | {} |\n", row.name, kernel(row.on[0]), kernel(row.on[1]));
    EXPECT_NE(page.find(line), std::string::npos) << line;
  }
}

/// Head widths that LibTorch's fused kernels do not take.
TEST(KernelTable, AttentionOfUnusualHeadsIsPaddedOrTakesTheFormula) {
  register_meta_kernels();
  const auto saved = [](int64_t width, at::ScalarType type) {
    const TargetScope scope(TargetDevice::gpu);
    const at::Tensor q = at::empty({1, 2, 64, width}, at::TensorOptions(type).device(at::kMeta)).requires_grad_(true);
    return std::string(fused_attention(q, q, q).grad_fn()->name());
  };
  EXPECT_NE(saved(16, at::kFloat).find("FusedShapes"), std::string::npos);
  EXPECT_EQ(saved(18, at::kFloat).find("FusedShapes"), std::string::npos) << "not divisible by 4";
  EXPECT_NE(saved(256, at::kBFloat16).find("FusedShapes"), std::string::npos);
  EXPECT_EQ(saved(264, at::kBFloat16).find("FusedShapes"), std::string::npos) << "wider than 256";
  EXPECT_EQ(saved(12, at::kBFloat16), "SliceBackward0") << "padded to 16";
  EXPECT_EQ(saved(16, at::kDouble).find("FusedShapes"), std::string::npos);
}

at::Tensor meta(at::IntArrayRef sizes, at::ScalarType type) {
  return at::empty(sizes, at::TensorOptions(type).device(at::kMeta));
}

/// Operators of every model have shapes on the meta device, in each way that layers are divided.
TEST(KernelTable, EveryModelCanBePlannedForAGpu) {
  const Tensors tokens = {meta({3, 32}, at::kLong)}, images = {meta({4, 3, 32, 32}, at::kFloat)},
                digits = {meta({5, 1, 28, 28}, at::kFloat)};
  struct Planned {
    std::function<Model()> make;
    Tensors inputs;
    bool splits;
  };
  const Planned models[] = {
      {[] { return gpt({.layers = 2, .heads = 4, .width = 32, .context = 64, .vocabulary = 50, .dropout = 0.1}); }, tokens,
       true},
      {[] { return llama({.layers = 2, .heads = 4, .kv_heads = 2, .width = 32, .ffn = 48, .context = 64, .vocabulary = 50}); },
       tokens, true},
      {[] { return resnet({.depth = 8}); }, images, false},
      {[] { return cnn({.width = 8}); }, digits, false},
      {[] { return mlp({.inputs = 784, .width = 30, .layers = 4, .classes = 30}); }, digits, false},
  };
  std::vector<CostOptions> ways = {{},
                                   {.weight_dtype = at::kBFloat16, .gradient_dtype = at::kBFloat16},
                                   {.layout = {.recompute_parts = true}},
                                   {.batch_ranks = 2}};
  const size_t whole = ways.size();
  for (const ContextMethod method : {ContextMethod::ring, ContextMethod::all_to_all})
    ways.push_back({.cp = 2, .layout = {.attention_over = method}});
  ways.push_back({.tp = 2, .layout = {.sequence_parallel = true}});
  for (const auto& [make, inputs, splits] : models) {
    for (size_t way = 0; way < (splits ? ways.size() : whole); ++way) {
      CostOptions options = ways[way];
      Model model = make();
      SCOPED_TRACE(fmt::format("{}, way {}", model.name, way));
      split_layers(model, options.tp, 0);
      Tensors outputs;
      options.device = TargetDevice::gpu;
      const std::vector<MeasuredCost> on_gpu = measure_cost(model, inputs, options, &outputs);
      const at::Tensor target = splits ? meta({3, 32}, at::kLong) : meta({inputs[0].size(0)}, at::kLong);
      EXPECT_GT(measure_loss(model, outputs, target, options).peak_bytes, 0);
      options.device = TargetDevice::cpu;
      model = make();
      split_layers(model, options.tp, 0);
      const std::vector<MeasuredCost> on_cpu = measure_cost(model, inputs, options);
      ASSERT_EQ(on_gpu.size(), on_cpu.size());
      for (size_t b = 0; b < on_cpu.size(); ++b) {
        SCOPED_TRACE(model.blocks[b].name);
        EXPECT_EQ(on_gpu[b].output_bytes, on_cpu[b].output_bytes);
        EXPECT_DOUBLE_EQ(on_gpu[b].forward_flops, on_cpu[b].forward_flops);
        EXPECT_EQ(on_gpu[b].saved_bytes % kGranule, 0);
        EXPECT_EQ(on_gpu[b].backward_peak_bytes % kGranule, 0);
      }
    }
  }
}

}  // namespace
}  // namespace weft::kernel_table_test
