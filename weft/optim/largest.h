// The largest magnitude among gradients, used to refuse an update before it writes non-finite values.
//
// One pass over what a rank owns, without temporaries: far cheaper than the norm, whose squares are exact.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "weft/nn/flat/flat_model.h"

namespace weft {

/// The largest magnitude in a floating-point tensor, as the bits of a float32. These order like magnitudes, with infinity above
/// all numbers and NaN above infinity, so the largest of several ranks' bits is the largest of all. 0 for no values.
int64_t largest_bits(const at::Tensor& values);
/// The magnitude that these bits represent.
float magnitude_of(int64_t bits);

/// Returns whether all values are finite.
bool is_finite(const at::Tensor& values);

/// largest_bits() of all gradients that this rank owns, or of its changes of statistics if one of them is not finite: [1] int64
/// on the model's device, without a wait of the host.
at::Tensor largest_gradient(FlatModel& model);
/// Adds kBadStatistics to the number of values that were not finite in `words` (nn/exact_sums.h) if a change of statistics that
/// this rank owns is not finite, without a wait of the host.
void mark_statistics(FlatModel& model, const at::Tensor& words);
/// The first parameter or statistic with a non-finite gradient or change on this rank; empty if all are finite. For error
/// messages.
std::string first_not_finite(FlatModel& model);

}  // namespace weft
