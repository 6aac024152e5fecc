// rotary_kernels: pairs of elements turned by angles (Su et al. 2021, arXiv:2104.09864), in one pass. Products and sums are
// float32.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// The tokens of one head: element i and element i + half of each are the two sides of an angle.
struct RotaryRows {
  const void* x = nullptr;    ///< [tokens, 2 half]
  void* y = nullptr;          ///< like x: x turned
  const void* cos = nullptr;  ///< [tokens, half], of the angles
  const void* sin = nullptr;  ///< like cos
  int64_t x_token = 0;        ///< elements of x from one token to the next; those of a token lie side by side
  int64_t y_token = 0;        ///< the same of y
  int64_t angle_token = 0;    ///< the same of cos and sin
  int64_t tokens = 0;         ///< rows
  int64_t half = 0;           ///< angles of each
  float direction = 1.0F;     ///< -1: back by the angles
};

void rotary_rows(Element element, const RotaryRows& rows);

}  // namespace weft
