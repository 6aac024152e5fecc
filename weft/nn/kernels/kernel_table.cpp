#include "weft/nn/kernels/kernel_table.h"

#include "weft/nn/operators_path.h"

namespace weft {

namespace {

// In the order of ModelOperation; columns in that of TargetDevice. Of the fused attentions: LibTorch takes flash attention for
// bfloat16 and float16, memory-efficient attention for float32 (nn/attention/fused.h).
constexpr std::array<OperationRow, kOperations> kTable = {{
    {"attention",
     {{{KernelKind::weft, "queries, keys, values, output, a log-sum per query and head", "tiles of scores per thread"},
       {KernelKind::fused, "queries, keys, values, output, a log-sum per query and head",
        "backward: queries in float32 (bf16, fp16) or one output (fp32)"}}}},
    {"attention within documents",
     {{{KernelKind::weft, "as attention", "as attention"},
       {KernelKind::fused, "as attention, for each document", "copies to join documents"}}}},
    {"attention over ranks",
     {{{KernelKind::weft, "queries, keys, values, output, a log-sum per query and head", "tiles of scores per thread"},
       {KernelKind::fused, "queries, keys, values, output, a log-sum per query and head", "as attention"}}}},
    {"batch norm",
     {{{KernelKind::weft, "input, mean and variance, output before a ReLU", "float64 sums per chunk of rows"},
       {KernelKind::operators, "input, mean and deviation, output before a ReLU", "none"}}}},
    {"convolution",
     {{{KernelKind::weft, "input, weight",
        "windows, where they are fewer than filters; a copy of the weight in channels-last order"},
       {KernelKind::fused, "input, weight", "the library's workspace, which is not counted"}}}},
    {"cross entropy",
     {{{KernelKind::weft, "the gradient of the logits", "none"}, {KernelKind::device, "logits, a log-sum per row", "none"}}}},
    {"activation functions, sums of columns",
     {{{KernelKind::weft, "input", "float32 sums per chunk of rows"}, {KernelKind::device, "input", "none"}}}},
    {"layer norm, RMS norm",
     {{{KernelKind::weft, "input, one or two numbers per row", "float32 sums per chunk of rows"},
       {KernelKind::device, "input, one or two numbers per row", "none"}}}},
    {"rotary embedding",
     {{{KernelKind::weft, "cosines and sines", "none"}, {KernelKind::device, "cosines and sines", "none"}}}},
}};

}  // namespace

const OperationRow& row_of(ModelOperation operation) { return kTable[static_cast<size_t>(operation)]; }

bool has_weft_kernel(ModelOperation operation, at::Device device) {
  if (forces_operators()) return false;
  return row_of(operation).on[static_cast<size_t>(target_of(device))].kernel == KernelKind::weft;
}

bool has_device_kernel(ModelOperation operation, const at::Tensor& x) {
  constexpr auto kGpu = static_cast<size_t>(TargetDevice::gpu);
  const at::ScalarType type = x.scalar_type();
  const bool is_there = forces_operators() || target_of(x.device()) == TargetDevice::gpu;
  return is_there && row_of(operation).on[kGpu].kernel == KernelKind::device && x.numel() > 0 &&
         (type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf);
}

bool has_elements(const at::Tensor& x) { return x.defined() && !x.is_meta() && x.numel() > 0; }

}  // namespace weft
