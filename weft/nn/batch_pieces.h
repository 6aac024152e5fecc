// Micro-batches in pieces: where samples are normalised together with those of other ranks (Context::batch), the ones that
// fewer ranks would take in several micro-batches must be there at once. So a rank then has several ranks' samples in one
// micro-batch, its pieces (Context::batch_pieces), and makes each sum over samples piece by piece, and then over the pieces in
// the binary tree of comm/group.h: with the bits of one piece a rank, on any number of ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace weft {

/// The samples (dim 0) of x that are piece `piece` of `pieces` equal ones. Throws InputError where there are no such.
at::Tensor batch_piece(const at::Tensor& x, int64_t piece, int64_t pieces);

/// What is made of each piece, side by side along dim 0.
at::Tensor of_batch_pieces(int64_t pieces, const std::function<at::Tensor(int64_t)>& of_piece);

}  // namespace weft
