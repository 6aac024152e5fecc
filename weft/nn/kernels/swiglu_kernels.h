// swiglu_kernels: y = silu(gate) up (Shazeer 2020, arXiv:2002.05202), with silu(x) = x / (1 + exp(-x)), and its gradients.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Elements that lie side by side.
struct SwigluRows {
  const void* gate = nullptr;  ///< what silu() takes
  const void* up = nullptr;    ///< what it multiplies
  void* y = nullptr;           ///< null in backward: not wanted
  const void* dy = nullptr;    ///< backward: the gradient of y
  void* d_gate = nullptr;      ///< backward: may be dy
  void* d_up = nullptr;        ///< backward
  int64_t count = 0;           ///< of elements
};

/// y of gate and up.
void swiglu_rows(Element element, const SwigluRows& rows);
/// The gradients of gate and up, and y once more where it is wanted.
void swiglu_backward_rows(Element element, const SwigluRows& rows);

}  // namespace weft
