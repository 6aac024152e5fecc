// gelu_kernels: GELU by its tanh formula (Hendrycks & Gimpel 2016, arXiv:1606.08415), and its gradient.
//
// 0.5 x (1 + tanh(z)) is computed as x sigmoid(2 z), which loses no digits where tanh is close to -1. The error is below 4
// units in the last place for x above -1, and below 40 down to -5.5, as rounding the exponent of exp(-2 z) costs more bits
// there. Below -10, value and gradient are less than 1e-34.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Contiguous elements.
struct GeluRows {
  const void* x = nullptr;   ///< input
  void* y = nullptr;         ///< GELU of x; may be x; null in backward: not computed
  const void* dy = nullptr;  ///< backward: the gradient of y
  void* dx = nullptr;        ///< backward: the gradient of x; may be dy
  int64_t count = 0;         ///< number of elements
};

/// Computes y from x.
void gelu_rows(Element element, const GeluRows& rows);
/// Computes the gradient of x, and y again if it is wanted.
void gelu_backward_rows(Element element, const GeluRows& rows);

}  // namespace weft
