// rotary_kernels: pairs of elements rotated by angles (Su et al. 2021, arXiv:2104.09864), in one pass. Products and sums are
// float32, each rounded: the same bits with any instruction set, and by LibTorch's operators.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// The tokens of one head: element i and element i + half of each form a pair.
struct RotaryRows {
  const void* x = nullptr;    ///< [tokens, 2 half]
  void* y = nullptr;          ///< like x: x rotated
  const void* cos = nullptr;  ///< [tokens, half]: cosines of the angles
  const void* sin = nullptr;  ///< [tokens, half]: sines
  int64_t x_token = 0;        ///< elements of x from one token to the next; a token is contiguous
  int64_t y_token = 0;        ///< the same for y
  int64_t angle_token = 0;    ///< the same for cos and sin
  int64_t tokens = 0;         ///< rows
  int64_t half = 0;           ///< angles per row
  float direction = 1.0F;     ///< -1: rotate back
};

void rotary_rows(Element element, const RotaryRows& rows);

}  // namespace weft
