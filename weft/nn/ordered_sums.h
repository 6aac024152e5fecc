// Sums in a fixed order, whichever ranks or threads compute them: the binary tree of comm/group.h. docs/sharding.md says where
// this order is used.
//
// Micro-batches in pieces: samples that are normalised together across ranks (Context::batch) must be in memory at once. On
// fewer ranks, one micro-batch therefore holds the samples of several ranks, as one piece for each (BlockLayout::batch_pieces).
// Every sum over samples is made within each piece, then over the pieces in the binary tree. The bits match those of one piece
// per rank, on any number of ranks.
//
// tree_sum() computes the tree's lower branches within one rank. Threaded sums over rows sum chunks of rows (RowChunks), then
// add the chunks' sums, in an order that depends only on the number of rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <functional>

namespace weft {

/// Samples (dim 0) of x in piece number `piece` of `pieces` equal ones. Throws InputError if there is no such piece.
at::Tensor batch_piece(const at::Tensor& x, int64_t piece, int64_t pieces);

/// Returns the results of `of_piece` for each piece, concatenated along dim 0.
at::Tensor map_batch_pieces(int64_t pieces, const std::function<at::Tensor(int64_t)>& of_piece);

/// Returns the sum of term(0) to term(pieces - 1), reusing the terms' memory; `pieces` is a power of two.
at::Tensor tree_sum(int64_t pieces, const std::function<at::Tensor(int64_t)>& term);

/// Returns the sum of all elements, whose bits do not depend on the number of threads. Differentiable.
at::Tensor sum_of_rows(const at::Tensor& elements);

/// Division of rows into at most 64 chunks of at least `fewest` rows.
struct RowChunks {
  static constexpr int64_t kFewest = 64;  ///< minimum rows per chunk
  static constexpr int64_t kMost = 64;    ///< maximum number of chunks

  int64_t rows_each;  ///< rows of every chunk except the last
  int64_t count;      ///< number of chunks; 0: no rows

  /// Divides `rows` rows.
  explicit RowChunks(int64_t rows, int64_t fewest = kFewest)
      : rows_each(std::max(fewest, (rows + kMost - 1) / kMost)), count((rows + rows_each - 1) / rows_each) {}
};

/// Sums `terms`, [count, width], in the binary tree, into the first term; `count` may be any number.
template <class Number>
void add_up_in_tree(Number* terms, int64_t count, int64_t width) {
  for (int64_t apart = 1; apart < count; apart *= 2) {
    for (int64_t term = 0; term + apart < count; term += 2 * apart) {
      Number* to = terms + term * width;
      const Number* from = to + apart * width;
      for (int64_t i = 0; i < width; ++i) to[i] += from[i];
    }
  }
}

}  // namespace weft
