// gelu_kernels: GELU by its tanh formula (Hendrycks & Gimpel 2016, arXiv:1606.08415), and its gradient.
//
// 0.5 x (1 + tanh(z)) is x sigmoid(2 z), which is computed: it loses no digits where tanh comes close to -1. The error is below
// 4 units in the last place.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Rows whose elements lie side by side.
struct GeluRows {
  void* x;            ///< [rows, width]: what goes in
  const float* bias;  ///< [width], added to x first, in place; null: none
  void* y;            ///< [rows, width]: GELU of x; null in backward: not wanted
  void* gradient;     ///< [rows, width]: backward overwrites that of y with that of x
  int64_t rows;
  int64_t width;
};

/// y of x.
void gelu_rows(Element element, const GeluRows& rows);
/// The gradient of x, and y once more where it is wanted.
void gelu_backward_rows(Element element, const GeluRows& rows);

}  // namespace weft
