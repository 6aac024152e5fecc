#include "weft/nn/images/channels_last.h"

#include <ATen/Context.h>

#include "weft/nn/kernels/kernel_table.h"

namespace weft {

namespace {

bool are_faster_here() {
#if defined(__x86_64__)
  static const bool faster = at::hasMKLDNN() && __builtin_cpu_supports("avx512f");
  return faster && at::globalContext().userEnabledMkldnn();
#else
  return false;
#endif
}

}  // namespace

bool is_channels_last(const at::Tensor& x) {
  return x.defined() && x.dim() == 4 && x.suggest_memory_format() == at::MemoryFormat::ChannelsLast &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

bool is_better_channels_last(const at::Tensor& x) {
  return x.defined() && x.dim() == 4 && has_weft_kernel(ModelOperation::convolution, x.device()) &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) && are_faster_here();
}

at::Tensor channels_last(const at::Tensor& x) {
  if (!is_better_channels_last(x)) return x;
  const at::Tensor turned = x.contiguous(at::MemoryFormat::ChannelsLast);
  if (is_channels_last(turned)) return turned;
  // One channel, or one pixel: the tensor is in both orders, and LibTorch would assume the other one.
  const int64_t channels = x.size(1), height = x.size(2), width = x.size(3);
  return turned.as_strided(turned.sizes(), {height * width * channels, 1, width * channels, channels});
}

}  // namespace weft
