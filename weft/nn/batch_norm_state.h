// BatchNormState: what batch_norm() (nn/batch_norm.h) normalises channels with.
#pragma once

#include <ATen/core/Tensor.h>

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

}  // namespace weft
