// Recompute of a part of a block ("selective" activation recomputation; Korthikanti et al. 2022, arXiv:2205.05198): the part
// keeps its input alone and is run once more in backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace weft {

/// Returns part(x), of which nothing that it makes on the way is kept. It must give the same bits again: random numbers by key,
/// or from LibTorch's default generators, whose state is kept for that (5 KiB). Parameters it reads get their gradients as
/// usual. Differentiable once.
at::Tensor recompute(const std::function<at::Tensor(const at::Tensor& x)>& part, const at::Tensor& x);

}  // namespace weft
