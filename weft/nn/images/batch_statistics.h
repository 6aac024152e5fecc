// batch_statistics: mean and variance of each channel over the samples of several ranks. batch_norm() (nn/images/batch_norm.h)
// normalises with a BatchNormState.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "weft/comm/group.h"

namespace weft {

/// The tensors and numbers of a normalisation; tensors are [channels].
struct BatchNormState {
  at::Tensor weight;        ///< scales the normalised values
  at::Tensor bias;          ///< added to the scaled values
  at::Tensor running_mean;  ///< updated in training, used in evaluation
  at::Tensor running_var;   ///< same for the unbiased variance
  double momentum = 0.1;    ///< share of a micro-batch's statistics in the running ones
  double eps = 1e-5;        ///< added to the variance
};

/// Throws InputError unless x is [samples, channels, ...], with at least one channel, and the state's tensors are [channels];
/// the running statistics, which change if `training`, must have x's type, or float32 if x is narrower.
void check_state(const at::Tensor& x, const BatchNormState& state, bool training);

/// Number of values of each channel of x [samples, channels, ...].
inline int64_t values_per_channel(const at::Tensor& x) { return x.size(1) > 0 ? x.numel() / x.size(1) : 0; }

/// Statistics of the values of all ranks; tensors are [channels], in the type of the running statistics.
struct BatchStatistics {
  at::Tensor mean;   ///< of each channel
  at::Tensor var;    ///< of each channel (biased)
  at::Tensor count;  ///< values per channel: a float64 scalar
};

/// Combines a rank's own `sums`: each channel's sum, then its sum of squares, then the number of values per channel, [2
/// channels + 1] float64, in which squares of float32 are exact and nothing cancels. `sums` becomes the sum over all ranks.
/// Updates the running statistics of `state`. Throws InputError for fewer than two values per channel over all ranks, for which
/// the host waits for the device only if this rank's own number, `own_count`, is below two.
BatchStatistics batch_statistics(const at::Tensor& sums, int64_t own_count, const BatchNormState& state, const Group& group);

/// Returns slope and offset, float64: (x - mean) slope + offset is the part of x's gradient that comes from mean and variance.
/// Takes the sums of dy, then of dy n, over the values of all ranks, [2 channels] float64; n = (x - mean) / root, root =
/// sqrt(var + eps) float64.
std::pair<at::Tensor, at::Tensor> slope_and_offset(const at::Tensor& sums, const at::Tensor& weight, const at::Tensor& root,
                                                   const at::Tensor& count);

}  // namespace weft
