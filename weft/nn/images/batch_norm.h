// batch_norm: channels normalised over the samples of a micro-batch (Ioffe & Szegedy 2015, arXiv:1502.03167), or over those of
// all ranks of Context::batch together: one device's on the whole, whatever each rank has of it.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/block.h"
#include "weft/nn/images/batch_statistics.h"

namespace weft {

/// y like x [samples, channels, ...]. Beside a narrow x all tensors of `state` may be float32. In training, with several ranks
/// in context.batch, mean and variance are those of the values of all ranks, each counted once: ranks may have different
/// numbers of samples, none too. Traffic: one all-reduce of 2 channels + 1 float64 forward and one of 2 channels backward.
/// Keeps x for backward. Of float32 or bfloat16 images that lie channels-last on the CPU (nn/images/channels_last.h) it makes y
/// in two passes over x, and dx in two (nn/images/channel_passes.h); of others LibTorch's operators do. The sums over samples
/// are made over the context.layout.batch_pieces pieces of x, then over the ranks, in the tree of comm/group.h. Throws
/// InputError for fewer than two values a channel.
at::Tensor batch_norm(const at::Tensor& x, const BatchNormState& state, const Context& context);

/// relu(batch_norm(x) + shortcut), in the same passes where there are such; `shortcut` is like x, or undefined. Keeps x and its
/// own output for backward.
at::Tensor batch_norm_relu(const at::Tensor& x, const BatchNormState& state, const Context& context,
                           const at::Tensor& shortcut = {});

}  // namespace weft
