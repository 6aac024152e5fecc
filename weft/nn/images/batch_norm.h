// batch_norm: normalises channels over the samples of a micro-batch (Ioffe & Szegedy 2015, arXiv:1502.03167), or of all ranks
// of Context::batch together, which gives the result of one device on all samples, however they are divided.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/block.h"
#include "weft/nn/images/batch_statistics.h"

namespace weft {

/// Returns y like x [samples, channels, ...]. With a narrow x all tensors of `state` may be float32. In training, with several
/// ranks in context.batch, mean and variance are over the values of all ranks, each counted once; ranks may have different
/// numbers of samples, including zero. Traffic: one all-reduce of 2 channels + 1 float64 forward and one of 2 channels
/// backward. Keeps x for backward. For float32 or bfloat16 images in channels-last order on the CPU
/// (nn/images/channels_last.h), y and dx each take two passes over x (nn/images/channel_passes.h); other images use LibTorch's
/// operators. Sums over samples follow the context.layout.batch_pieces pieces of x, then the ranks, in the tree of
/// comm/group.h. Throws InputError for fewer than two values per channel.
at::Tensor batch_norm(const at::Tensor& x, const BatchNormState& state, const Context& context);

/// Returns relu(batch_norm(x) + shortcut), in the same passes if available; `shortcut` is like x, or undefined. Keeps x and the
/// result for backward.
at::Tensor batch_norm_relu(const at::Tensor& x, const BatchNormState& state, const Context& context,
                           const at::Tensor& shortcut = {});

}  // namespace weft
