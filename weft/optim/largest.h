// The largest magnitude among gradients, by which an update is refused before it writes what is not finite.
//
// One pass over what a rank owns, and nothing kept: far less than the norm, whose squares are exact.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "weft/nn/flat/flat_model.h"

namespace weft {

/// The largest magnitude of a floating-point tensor's values, as the bits of a float32: they order as magnitudes do, infinity
/// above all numbers and what is no number above that, so that the largest of several ranks' is the largest of all. 0 of none.
int64_t largest_bits(const at::Tensor& values);
/// The magnitude of such bits.
float magnitude_of(int64_t bits);

/// Whether all values are finite.
bool is_finite(const at::Tensor& values);

/// largest_bits() of all gradients that this rank owns; of changes of statistics if one of them is not finite.
int64_t largest_gradient(FlatModel& model);
/// Whether all changes of statistics that this rank owns are finite.
bool has_finite_statistics(FlatModel& model);
/// The first parameter or statistic that has a gradient or change on this rank that is not finite; empty: none has. For the way
/// to an error.
std::string first_not_finite(FlatModel& model);

}  // namespace weft
