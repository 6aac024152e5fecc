// Recomputing part of a block ("selective" activation recomputation; Korthikanti et al. 2022, arXiv:2205.05198): the part keeps
// only its input and is run again in backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace weft {

/// Returns part(x) without keeping its intermediate values. The part must give the same bits when run again: its random numbers
/// come from keys, or from LibTorch's default generators, whose state is kept for this (5 KiB). Parameters that it reads get
/// their gradients as usual. Differentiable once.
at::Tensor recompute(const std::function<at::Tensor(const at::Tensor& x)>& part, const at::Tensor& x);

}  // namespace weft
