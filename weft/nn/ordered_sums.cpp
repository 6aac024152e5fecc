#include "weft/nn/ordered_sums.h"

#include <ATen/ops/cat.h>
#include <fmt/core.h>

#include <bit>
#include <vector>

#include "weft/base/error.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

at::Tensor batch_piece(const at::Tensor& x, int64_t piece, int64_t pieces) {
  if (pieces == 1 && piece == 0) return x;
  const TensorChecks check("piece of a micro-batch");
  check.dense("x", x);
  check.that(piece >= 0 && piece < pieces && x.dim() >= 1 && x.size(0) % pieces == 0, "x", x,
             fmt::format("samples in {} equal pieces, with a piece {}", pieces, piece));
  const int64_t samples = x.size(0) / pieces;
  return x.narrow(0, piece * samples, samples);
}

at::Tensor map_batch_pieces(int64_t pieces, const std::function<at::Tensor(int64_t)>& of_piece) {
  if (pieces < 1) throw InputError(fmt::format("{} pieces per micro-batch; must be at least 1", pieces));
  if (pieces == 1) return of_piece(0);
  std::vector<at::Tensor> all;
  all.reserve(pieces);
  for (int64_t piece = 0; piece < pieces; ++piece) all.push_back(of_piece(piece));
  return at::cat(all);
}

at::Tensor tree_sum(int64_t pieces, const std::function<at::Tensor(int64_t)>& term) {
  if (pieces < 1 || !std::has_single_bit(static_cast<uint64_t>(pieces)))
    throw InputError(fmt::format("sum of {} pieces: must be a power of two", pieces));
  if (pieces == 1) return term(0);
  const int64_t half = pieces / 2;
  at::Tensor sum = tree_sum(half, term);
  return sum.add_(tree_sum(half, [&](int64_t piece) { return term(half + piece); }));
}

/// LibTorch divides a sum with one result between threads, but not the rows of one with several.
at::Tensor sum_of_rows(const at::Tensor& elements) {
  constexpr int64_t kRow = 4096;  // less than LibTorch gives a thread
  at::Tensor rest = elements;
  while (rest.numel() > kRow) {
    const int64_t rows = rest.numel() / kRow, whole = rows * kRow, more = rest.numel() - whole;
    if (more == 0) {
      rest = rest.reshape({rows, kRow}).sum(1);
      continue;
    }
    rest = rest.reshape({-1});
    rest = at::cat({rest.narrow(0, 0, whole).view({rows, kRow}).sum(1), rest.narrow(0, whole, more).sum().view({1})});
  }
  return rest.dim() == 1 ? rest.sum() : rest.reshape({-1}).sum();
}

}  // namespace weft
