// norm_kernels: layer norm (Ba et al. 2016, arXiv:1607.06450) and RMS norm (Zhang & Sennrich 2019, arXiv:1910.07467) of rows,
// in one pass with the addition to a residual stream before the norm and, in backward, the addition of the stream's gradient.
//
// Statistics and all intermediate values are float32; means are computed first, then squares of the centred values. RMS norm
// rounds the scaled value before it multiplies by the weight, as published Llama implementations do.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Rows [rows, width], each contiguous. `x` is the value that is normalised: the sum, if something is added.
struct NormRows {
  const void* x = nullptr;         ///< input
  const void* added = nullptr;     ///< forward: added to x; null: nothing
  void* sum = nullptr;             ///< forward, with `added`: the rounded sum, which is normalised
  void* y = nullptr;               ///< forward: the normalised rows
  float* mean = nullptr;           ///< [rows]; null: RMS norm, which subtracts no mean
  float* scale = nullptr;          ///< [rows]: 1 / root(variance, or mean square, + eps)
  const float* weight = nullptr;   ///< [width]
  const float* bias = nullptr;     ///< [width]; null: no bias
  const void* dy = nullptr;        ///< backward: the gradient of y
  const void* residual = nullptr;  ///< backward: gradient that reaches x past the norm; null: there is none
  void* dx = nullptr;              ///< backward: the gradient of x
  float* gradient_sums = nullptr;  ///< backward: [2 width], sums over the rows of dy times the scaled values, and of dy
  float eps = 0.0F;                ///< forward: added to the variance, or the mean square
  int64_t rows = 0;                ///< number of rows of all arrays [rows, ...]
  int64_t width = 0;               ///< elements per row
};

/// Writes sum, y, mean and scale.
void norm_rows(Element element, const NormRows& rows);
/// Writes y again, with the same bits, from x, mean and scale.
void norm_again_rows(Element element, const NormRows& rows);
/// Writes dx and gradient_sums.
void norm_backward_rows(Element element, const NormRows& rows);

}  // namespace weft
