// Elements of tensors as bits, and sums of them: to explain a sum that came out wrong.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// Bits of element `index` of a contiguous CPU tensor, in the low bytes.
uint64_t element_bits(const at::Tensor& tensor, int64_t index);
/// The value of such bits; NaN for a type that cannot be reduced.
double element_value(uint64_t bits, at::ScalarType dtype);
/// The value as text with all its digits.
std::string element_text(uint64_t bits, at::ScalarType dtype);
/// Index of the first element whose bits differ; -1: none. Of equal types and sizes.
int64_t first_difference(const at::Tensor& a, const at::Tensor& b);
/// Largest relative error of one addition in the type; 0 for integers.
double rounding_of(at::ScalarType dtype);

/// One bit of a rank's element that explains a wrong sum.
struct FlippedBit {
  int rank = 0;          ///< position in the group
  uint64_t arrived = 0;  ///< the bits that were added instead of the rank's
  int bit = 0;           ///< from 0, the lowest
};

/// Whether the ranks' elements add up to these bits, in the order of a tree or of a ring.
bool adds_up(const std::vector<uint64_t>& parts, uint64_t sum, at::ScalarType dtype);
/// The single flipped bits in any of the parts that would give `sum`, if the parts give `right` otherwise.
std::vector<FlippedBit> explain(const std::vector<uint64_t>& parts, uint64_t right, uint64_t sum, at::ScalarType dtype);

}  // namespace weft
