// Device kernels of updates whose numbers the device makes itself (update_numbers.h), as operators of LibTorch's dispatcher,
// like those of device_kernels.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>

#include "weft/nn/device_kernels/update_numbers.h"

namespace weft {

/// Adds the squares of each range to a sum of its own, as add_squares_of() does: to row rows[i] of `sums` [n, kSumWords] int64.
void add_squares_each(at::TensorList ranges, at::IntArrayRef places, at::IntArrayRef rows, const at::Tensor& sums);

/// Returns the trust ratios of tensors, [n] float32. `squares` [2 n, kSumWords] int64: of weights and update; `decays` [n]
/// float64, NaN: the ratio is 1; `numbers`: the step's, of which the divisor is read (step_numbers.h).
at::Tensor trust_ratios(const TrustRule& rule, const at::Tensor& squares, const at::Tensor& decays, const at::Tensor& numbers);

/// Returns BiasCorrections as [2] float32 for the update `later` after the step's, whose number is in `rate` [2] float32.
at::Tensor bias_corrections_at(const at::Tensor& rate, int64_t later, double beta1, double beta2);

/// Learning rate of an update, and its number, for a device.
struct RateThere {
  at::Tensor step;     ///< [2] float32: rate of the step, and number of its update
  at::Tensor lr = {};  ///< [] float32: the tensor's rate; undefined: `known_lr`
  double known_lr = 0.0;
  int64_t later = 0;  ///< the update's number, less the step's
};

/// Returns FactoredNumbers as [kFactoredNumbers] float64. `squares` [kSumWords] int64: of the weights.
at::Tensor factored_numbers_at(const RateThere& at, const FactoredRule& rule, const at::Tensor& squares);

/// weights -= rate values, or rate values / divisors if those are defined: flat float32, with the bits of sub_() and addcdiv_()
/// by a number of the host's. `rate` [] float32.
void subtract_scaled(const at::Tensor& weights, const at::Tensor& values, const at::Tensor& divisors, const at::Tensor& rate);

/// Elements of a range that belong to one tensor.
struct ScaledPart {
  int64_t begin = 0, end = 0;
  int64_t row = 0;  ///< of the factor
};

/// Multiplies parts of `values`, flat float32, each by its factor in `factors`, float32.
void scale_parts(const at::Tensor& values, c10::ArrayRef<ScaledPart> parts, const at::Tensor& factors);

}  // namespace weft
