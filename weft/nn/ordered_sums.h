// Sums whose order is fixed, whatever ranks or threads make them: in the binary tree of comm/group.h, of which
// docs/data_parallel.md tells where it is.
//
// Micro-batches in pieces: where samples are normalised together with those of other ranks (Context::batch), the ones that
// fewer ranks would take in several micro-batches must be there at once. So a rank then has several ranks' samples in one
// micro-batch, its pieces (BlockLayout::batch_pieces), and makes each sum over samples piece by piece, and then over the pieces
// in the binary tree of comm/group.h: with the bits of one piece a rank, on any number of ranks.
//
// tree_sum() makes the tree's lower branches, a rank by itself. Sums over rows by any number of threads are of chunks of rows
// (RowChunks), then of those, in an order that the number of rows alone decides.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <functional>

namespace weft {

/// The samples (dim 0) of x that are piece `piece` of `pieces` equal ones. Throws InputError where there are no such.
at::Tensor batch_piece(const at::Tensor& x, int64_t piece, int64_t pieces);

/// What is made of each piece, side by side along dim 0.
at::Tensor of_batch_pieces(int64_t pieces, const std::function<at::Tensor(int64_t)>& of_piece);

/// The sum of term(0) to term(pieces - 1), whose memory is taken over; pieces is a power of two.
at::Tensor tree_sum(int64_t pieces, const std::function<at::Tensor(int64_t)>& term);

/// How rows are divided: 64 to a chunk, or as few as are told, more where there would be more than 64 chunks.
struct RowChunks {
  static constexpr int64_t kFewest = 64;  ///< rows to a chunk
  static constexpr int64_t kMost = 64;    ///< chunks

  int64_t rows_each;  ///< of all but the last
  int64_t count;      ///< 0: no rows

  /// Of that many.
  explicit RowChunks(int64_t rows, int64_t fewest = kFewest)
      : rows_each(std::max(fewest, (rows + kMost - 1) / kMost)), count((rows + rows_each - 1) / rows_each) {}
};

/// The sum of `terms`, [count, width], in the binary tree, in the first one's place; any count.
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
