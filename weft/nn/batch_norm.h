// batch_norm: channels normalised over the samples of a micro-batch (Ioffe & Szegedy 2015, arXiv:1502.03167), or over those of
// all ranks of Context::batch together: one device's on the whole, whatever each rank has of it.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/block.h"

namespace weft {

/// The tensors and numbers of such a normalisation; tensors [channels].
struct BatchNormState {
  at::Tensor weight;        ///< of the normalised values
  at::Tensor bias;          ///< added to them
  at::Tensor running_mean;  ///< changed in training, normalised by in an evaluation
  at::Tensor running_var;   ///< as the mean; of the unbiased variance
  double momentum = 0.1;    ///< share of a micro-batch's statistics in the running ones
  double eps = 1e-5;        ///< added to the variance
};

/// y like x [samples, channels, ...]. Beside a narrow x all tensors of `state` may be float32. In training, with several ranks
/// in context.batch, mean and variance are those of the values of all ranks, each counted once: ranks may have different
/// numbers of samples, none too. Traffic: one all-reduce of 2 channels + 1 float64 forward and one of 2 channels backward.
/// Keeps x for backward. The sums over samples are made over the context.batch_pieces pieces of x, then over the ranks, in the
/// tree of comm/group.h. Throws InputError for fewer than two values a channel.
at::Tensor batch_norm(const at::Tensor& x, const BatchNormState& state, const Context& context);

}  // namespace weft
