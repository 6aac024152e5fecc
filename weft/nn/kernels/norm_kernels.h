// norm_kernels: layer norm (Ba et al. 2016, arXiv:1607.06450) and RMS norm (Zhang & Sennrich 2019, arXiv:1910.07467) of rows,
// with the addition of a residual stream before it, and of its gradient behind, in the same pass.
//
// Statistics and all else inside are float32; means and squares of what is centred are taken one after the other. RMS norm
// rounds what it has scaled before it multiplies by the weight, as the Llama models that others publish do.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Rows [rows, width] whose elements lie side by side. `x` is what is normalised: the sum, where something is added.
struct NormRows {
  const void* x = nullptr;         ///< what goes in
  const void* added = nullptr;     ///< forward: added to x; null: nothing
  void* sum = nullptr;             ///< forward, with `added`: both together, rounded as it is normalised
  void* y = nullptr;               ///< forward: the norm
  float* mean = nullptr;           ///< [rows]; null: RMS norm, which takes none off
  float* scale = nullptr;          ///< [rows]: 1 / root(variance, or mean square, + eps)
  const float* weight = nullptr;   ///< [width]
  const float* bias = nullptr;     ///< [width]; null: none
  const void* dy = nullptr;        ///< backward: the gradient of y
  const void* residual = nullptr;  ///< backward: what comes back to x by another way; null: nothing
  void* dx = nullptr;              ///< backward: the gradient of x
  float* gradient_sums = nullptr;  ///< backward: [2 width], sums over the rows of dy times what was scaled, and of dy
  float eps = 0.0F;                ///< forward: added to the variance, or the mean square
  int64_t rows = 0;                ///< of all that have rows
  int64_t width = 0;               ///< elements of a row
};

/// Writes sum, y, mean and scale.
void norm_rows(Element element, const NormRows& rows);
/// Writes y once more, the same bits, from x, mean and scale.
void norm_again_rows(Element element, const NormRows& rows);
/// Writes dx and gradient_sums.
void norm_backward_rows(Element element, const NormRows& rows);

}  // namespace weft
