// batch_statistics: mean and variance of each channel over the samples of several ranks, for what normalises by them.
// BatchNormState is what batch_norm() (nn/images/batch_norm.h) normalises them with.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "weft/comm/group.h"

namespace weft {

/// The tensors and numbers of a normalisation; tensors [channels].
struct BatchNormState {
  at::Tensor weight;        ///< of the normalised values
  at::Tensor bias;          ///< added to them
  at::Tensor running_mean;  ///< changed in training, normalised by in an evaluation
  at::Tensor running_var;   ///< as the mean; of the unbiased variance
  double momentum = 0.1;    ///< share of a micro-batch's statistics in the running ones
  double eps = 1e-5;        ///< added to the variance
};

/// Throws InputError unless x is [samples, channels, ...], with some channels, and the state's tensors are [channels]; the
/// running ones, which `training` changes, of its type, or float32 beside a narrow x.
void check_state(const at::Tensor& x, const BatchNormState& state, bool training);

/// Of the values of all ranks; tensors [channels], in the type of the running ones.
struct BatchStatistics {
  at::Tensor mean;     ///< of each channel
  at::Tensor var;      ///< of all values, not one less
  double count = 0.0;  ///< values of a channel
};

/// From a rank's own `sums`: each channel's sum, then the sums of squares, then how many values one has, [2 channels + 1]
/// float64, in which squares of float32 are exact and nothing cancels. They become those of all ranks. Moves the running
/// statistics of `state`. Throws InputError for fewer than two values a channel.
BatchStatistics batch_statistics(const at::Tensor& sums, const BatchNormState& state, const Group& group);

/// What mean and variance add to a gradient of x that takes them for given: (x - mean) slope + offset, float64. From the sums
/// of dy, then of dy n, over the values of all ranks, [2 channels] float64; n = (x - mean) / root, root = sqrt(var + eps)
/// float64.
std::pair<at::Tensor, at::Tensor> slope_and_offset(const at::Tensor& sums, const at::Tensor& weight, const at::Tensor& root,
                                                   double count);

}  // namespace weft
