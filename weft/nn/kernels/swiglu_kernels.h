// swiglu_kernels: y = silu(gate) up (Shazeer 2020, arXiv:2002.05202), with silu(x) = x / (1 + exp(-x)), and its gradients.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Contiguous elements.
struct SwigluRows {
  const void* gate = nullptr;  ///< argument of silu()
  const void* up = nullptr;    ///< multiplied by silu(gate)
  void* y = nullptr;           ///< output; null in backward: not computed
  const void* dy = nullptr;    ///< backward: the gradient of y
  void* d_gate = nullptr;      ///< backward: the gradient of gate; may be dy
  void* d_up = nullptr;        ///< backward: the gradient of up
  int64_t count = 0;           ///< number of elements
};

/// Computes y from gate and up.
void swiglu_rows(Element element, const SwigluRows& rows);
/// Computes the gradients of gate and up, and y again if it is wanted.
void swiglu_backward_rows(Element element, const SwigluRows& rows);

}  // namespace weft
