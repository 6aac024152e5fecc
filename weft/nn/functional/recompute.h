// Recomputing part of a block ("selective" activation recomputation; Korthikanti et al. 2022, arXiv:2205.05198): the part keeps
// only its input and is run again in backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace weft {

/// Where the random numbers of a part come from.
enum class PartDraws {
  generators,  ///< LibTorch's default generators: their state is kept (5 KiB)
  keys         ///< keys (nn/random.h), or there are none
};

/// Returns part(x) without keeping its intermediate values. The part must give the same bits when run again. Parameters that it
/// reads get their gradients as usual. Differentiable once.
at::Tensor recompute(const std::function<at::Tensor(const at::Tensor& x)>& part, const at::Tensor& x,
                     PartDraws draws = PartDraws::generators);

}  // namespace weft
