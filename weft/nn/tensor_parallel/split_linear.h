// The two forms of a linear layer that is split over ranks (Shoeybi et al. 2019, arXiv:1909.08053), each as one operation of
// autograd, so that what goes to other ranks travels while this one multiplies: sums of the gradients of inputs beside the
// weights' gradients, and a product's sum in BlockLayout::tp_chunks chunks, each beside the product of the next.
#pragma once

#include <string>
#include <vector>

#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/weighted_layer.h"

namespace weft {

/// The outputs of layers split by columns that take the same x, [batch, tokens, ..., in]: whole rows on every rank, or, with
/// sequence_parallel, those of this rank's tokens, which are gathered and of which no more than these are kept for backward
/// (there the others' come once more: Korthikanti et al. 2022, arXiv:2205.05198). The gradients of x are summed over the
/// layers, then over the ranks. All parameters are bound to flat buffers (nn/functional/weighted_layer.h). Traffic of b bytes
/// of the whole x in a group of n: backward 2 (n-1)/n b; with sequence_parallel (n-1)/n b forward and twice that backward.
Tensors linear_by_columns(const at::Tensor& x, const std::vector<LinearParameters>& layers, const Context& context,
                          const std::string& what);

/// Rows that are normalised before layers take them.
struct NormedRows {
  at::Tensor x;      ///< [batch, tokens, ..., in]
  at::Tensor added;  ///< like x; undefined: nothing
  Norm norm;         ///< of their sum
};

/// The same of norm(x + added); in front of the outputs their sum. The sum is kept for backward, and its norm made again there.
/// Layers that are not split are those of a group of one.
Tensors linear_by_columns(const NormedRows& rows, const std::vector<LinearParameters>& layers, const Context& context,
                          const std::string& what);

/// The sum over the ranks of the products of their parts of x's rows, [..., part], without bias: whole on every rank, or its
/// tokens alone with sequence_parallel. The weight is bound to a flat buffer. Traffic of b bytes of the whole sum in a group of
/// n: forward 2 (n-1)/n b; with sequence_parallel half of that forward and half backward.
at::Tensor linear_by_rows(const LayerInput& x, Parameter& weight, const Context& context, const std::string& what);

}  // namespace weft
