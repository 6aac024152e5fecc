// Layers split into more parts than there are ranks: a rank has several, its pieces (Split::pieces), and computes each
// separately, with the product shapes of one part per rank. Sums over parts are made in the binary tree of comm/group.h, first
// over a rank's pieces and then over the ranks, so that results have the same bits on any number of ranks that divides the
// parts (run.reproducible_tp).
//
// Between a layer by columns and one by rows, activations are [pieces x batch, ...], piece after piece: attention, activations
// and other sample-wise operations treat pieces as samples. LibTorch kernels may compute a vector's tail elements with other
// bits, so in training a piece must fill whole vectors (kVectorElements).
//
// Cost: smaller products, and log2(pieces) temporaries of the result's size for each sum over pieces. Traffic and kept memory
// are those of layers without pieces.
#pragma once

#include <cstdint>

#include "weft/nn/block.h"
#include "weft/nn/functional/activation.h"

namespace weft {

/// Activation elements of a piece must be a multiple of this: two of the widest vectors, the step of LibTorch's kernels.
inline constexpr int64_t kVectorElements = 32;

/// linear() (nn/layers/linear.h) for a weight in pieces, split along dim 0: takes x [batch, ..., in], equal on all ranks, and
/// returns [pieces x batch, ..., out of a piece], or with Split::joined all of [batch, ..., out]. Throws InputError for pieces
/// that do not fill whole vectors.
at::Tensor columns_of_pieces(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context);
/// The same along dim 1: takes x [pieces x batch, ..., in of a piece], or whole rows and selects the rank's pieces, and returns
/// the sum over all parts, [batch, ..., out], equal on all ranks.
at::Tensor rows_of_pieces(const LayerInput& x, Parameter& weight, Parameter* bias, const Context& context);
/// Rows of an embedding whose entries are in pieces; ids [batch, tokens] are equal on all ranks.
at::Tensor embedding_of_pieces(const at::Tensor& ids, const Parameter& weight, const Context& context);

}  // namespace weft
