// Layers that are split into more parts than there are ranks: a rank has several, its pieces (Split::pieces), and computes each
// by itself, with products of the shapes that one part a rank has. Sums over parts are made in the binary tree of comm/group.h,
// first over a rank's pieces and then over the ranks, so that results have the same bits on any number of ranks that divides
// the parts (run.reproducible_tp).
//
// What lies between a layer by columns and one by rows is [pieces x batch, ...], piece after piece: to attention, activations
// and all else that treats samples alike, pieces are samples. Elements that a kernel of LibTorch's computes in the tail of its
// vectors may have other bits than the rest, so in training a piece must have whole vectors (kVectorElements).
//
// Cost: smaller products, and for each sum over pieces log2(pieces) temporaries of its size; traffic is that of layers without
// pieces, and nothing is kept that they do not keep.
#pragma once

#include <cstdint>

#include "weft/nn/block.h"
#include "weft/nn/functional/activation.h"

namespace weft {

/// Elements of activations that a piece has a multiple of: two of the widest vectors, the step of LibTorch's kernels.
inline constexpr int64_t kVectorElements = 32;

/// linear() of nn/layers/linear.h for a weight in pieces that is split along dim 0: x [batch, ..., in], alike on all ranks, to
/// [pieces x batch, ..., out of a piece]; or where Split::joined to all of [batch, ..., out]. Throws InputError for pieces that
/// are no whole vectors.
at::Tensor columns_of_pieces(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context);
/// The same along dim 1: x [pieces x batch, ..., in of a piece], or whole rows of which the rank takes its pieces, to the sum
/// over all parts, [batch, ..., out], alike on all ranks.
at::Tensor rows_of_pieces(const LayerInput& x, Parameter& weight, Parameter* bias, const Context& context);
/// Rows of an embedding whose entries are in pieces, for ids [batch, tokens], alike on all ranks.
at::Tensor embedding_of_pieces(const at::Tensor& ids, const Parameter& weight, const Context& context);

}  // namespace weft
