// gelu_kernels: GELU by its tanh formula (Hendrycks & Gimpel 2016, arXiv:1606.08415), and its gradient.
//
// 0.5 x (1 + tanh(z)) is x sigmoid(2 z), which is computed: it loses no digits where tanh comes close to -1. The error is below
// 4 units in the last place for x above -1, and below 40 down to -5.5: as many bits as the exponent of exp(-2 z) has. Below
// -10 value and gradient are less than 1e-34.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Elements that lie side by side.
struct GeluRows {
  const void* x = nullptr;   ///< what goes in
  void* y = nullptr;         ///< GELU of x, and may be x; null in backward: not wanted
  const void* dy = nullptr;  ///< backward: the gradient of y
  void* dx = nullptr;        ///< backward: the gradient of x; may be dy
  int64_t count = 0;         ///< of elements
};

/// y of x.
void gelu_rows(Element element, const GeluRows& rows);
/// The gradient of x, and y once more where it is wanted.
void gelu_backward_rows(Element element, const GeluRows& rows);

}  // namespace weft
