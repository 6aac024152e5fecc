// Every operation of the kernel table, planned on the meta device: for a CPU it costs what the same block costs on CPU tensors, for a
// GPU what the operators there keep and need, worked out tensor by tensor.
#include "weft/nn/kernels/kernel_table.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "tests/support/refusal.h"
#include "weft/models/vision.h"
#include "weft/nn/attention/attention.h"
#include "weft/nn/attention/fused.h"
#include "weft/nn/attention/within_documents.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/functional/gelu.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/images/batch_norm.h"
#include "weft/nn/images/channels_last.h"
#include "weft/nn/loss/cross_entropy.h"

namespace weft::kernel_table_test {
namespace {

constexpr int64_t kBatch = 2, kTokens = 64, kHeads = 4, kHead = 16, kWidth = kHeads * kHead, kRows = kBatch* kTokens;
constexpr int64_t kGranule = 512;

using Operate = std::function<at::Tensor(const Tensors& inputs, const std::vector<Parameter>& parameters, const Context& context)>;

/// A block of one operation, with parameters [size].
class OneOperation : public Block {
 public:
  OneOperation(Operate operate, const std::vector<int64_t>& sizes, at::Device device) : operate_(std::move(operate)) {
    for (const int64_t size : sizes) parameters_.push_back({at::zeros({size}, at::TensorOptions(at::kFloat).device(device)), {}});
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
  std::vector<int64_t> input;            ///< sizes of the input
  std::vector<int64_t> parameters = {};  ///< sizes
  at::ScalarType type = at::kFloat;
};

MeasuredCost cost_of(const Row& row, at::Device device, TargetDevice target) {
  Model model{.name = row.name};
  model.blocks.push_back({"one", "", std::make_shared<OneOperation>(row.operate, row.parameters, device)});
  const at::Tensor x = at::zeros(row.input, at::TensorOptions(row.type).device(device));
  return measure_cost(model, {x.requires_grad_(true)}, {.weight_dtype = row.type, .gradient_dtype = row.type, .device = target})[0];
}

std::vector<Row> rows() {
  const std::vector<int64_t> qkv = {kBatch, kTokens, 3 * kWidth}, x = {kBatch, kTokens, kWidth};
  const auto attend = [](const Tensors& in, const auto&, const Context&) { return attention(in[0], kHeads); };
  const auto within = [](const Tensors& in, const auto&, const Context&) {
    return document_attention(in[0], kHeads, {{0, 0, 24}, {0, 24, 40}, {1, 0, 64}});
  };
  const auto layer_norm = [](const Tensors& in, const std::vector<Parameter>& p, const Context&) {
    return normalise(in[0], {p[0].value, p[1].value});
  };
  const auto rms_norm = [](const Tensors& in, const std::vector<Parameter>& p, const Context&) {
    return normalise(in[0], {p[0].value});
  };
  const auto activate = [](const Tensors& in, const auto&, const Context&) { return gelu(in[0]); };
  std::vector<Row> all;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    all.push_back({"attention", attend, qkv, {}, type});
    all.push_back({"documents", within, qkv, {}, type});
    all.push_back({"layer norm", layer_norm, x, {kWidth, kWidth}, type});
    all.push_back({"RMS norm", rms_norm, x, {kWidth}, type});
    all.push_back({"gelu", activate, x, {}, type});
  }
  return all;
}

TEST(KernelTable, Prints) {
  at::set_num_threads(1);
  for (const Row& row : rows()) {
    for (const auto& [what, cost] : {std::pair("cpu   ", cost_of(row, at::kCPU, TargetDevice::cpu)), std::pair("as cpu", cost_of(row, at::kMeta, TargetDevice::cpu)), std::pair("as gpu", cost_of(row, at::kMeta, TargetDevice::gpu))}) {
      fmt::print("{} {} {}: saved {} output {} keeps {} forward {} backward {} flops {} {}\n", row.name, at::toString(row.type), what, cost.saved_bytes, cost.output_bytes, cost.keeps_output,
      cost.forward_peak_bytes, cost.backward_peak_bytes, cost.forward_flops, cost.backward_flops);
    }
  }
}

}  // namespace
}  // namespace weft::kernel_table_test
