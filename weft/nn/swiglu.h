// swiglu: the gate of a feed-forward layer (Shazeer 2020, arXiv:2002.05202).
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// silu(gate) up, element by element. Keeps both for backward, and computes silu(gate) again there.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace weft
