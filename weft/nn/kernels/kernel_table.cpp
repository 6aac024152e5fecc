#include "weft/nn/kernels/kernel_table.h"

#include <utility>

#include "weft/nn/operators_path.h"

namespace weft {

namespace {

// The observer of planning calls layers, which take no target device: a property of the thread. Backward of meta tensors runs
// on the thread that asks for it.
thread_local TargetDevice planned = TargetDevice::cpu;

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
       {KernelKind::operators, "queries, keys, values, output, a log-sum per query and head",
        "two to three float32 matrices of scores"}}}},
    {"batch norm",
     {{{KernelKind::weft, "input, mean and variance, output before a ReLU", "float64 sums per chunk of rows"},
       {KernelKind::operators, "input, mean and deviation, output before a ReLU", "none"}}}},
    {"convolution",
     {{{KernelKind::weft, "input, weight",
        "windows, where they are fewer than filters; a copy of the weight in channels-last order"},
       {KernelKind::fused, "input, weight", "the library's workspace, which is not counted"}}}},
    {"cross entropy",
     {{{KernelKind::weft, "the gradient of the logits", "none"},
       {KernelKind::operators, "logarithms of the probabilities", "two gradients of the size of the logits"}}}},
    {"activation functions, sums of columns",
     {{{KernelKind::weft, "input", "float32 sums per chunk of rows"},
       {KernelKind::operators, "input", "one tensor of the input's size"}}}},
    {"layer norm, RMS norm",
     {{{KernelKind::weft, "input, one or two numbers per row", "float32 sums per chunk of rows"},
       {KernelKind::operators, "input, one or two numbers per row", "RMS norm: float32 copies of the input"}}}},
    {"rotary embedding",
     {{{KernelKind::weft, "cosines and sines", "none"},
       {KernelKind::operators, "cosines and sines", "two float32 products of the input's size"}}}},
}};

}  // namespace

const OperationRow& row_of(ModelOperation operation) { return kTable[static_cast<size_t>(operation)]; }

TargetDevice target_of(at::Device device) {
  if (device.is_meta()) return planned;
  return device.is_cpu() ? TargetDevice::cpu : TargetDevice::gpu;
}

bool has_weft_kernel(ModelOperation operation, at::Device device) {
  if (forces_operators()) return false;
  return row_of(operation).on[static_cast<size_t>(target_of(device))].kernel == KernelKind::weft;
}

bool has_elements(const at::Tensor& x) { return x.defined() && !x.is_meta() && x.numel() > 0; }

TargetScope::TargetScope(TargetDevice device) : before_(std::exchange(planned, device)) {}
TargetScope::~TargetScope() { planned = before_; }

}  // namespace weft
