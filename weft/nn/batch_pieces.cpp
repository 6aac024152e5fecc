#include "weft/nn/batch_pieces.h"

#include <ATen/ops/cat.h>

#include <vector>

namespace weft {

at::Tensor of_batch_pieces(int64_t pieces, const std::function<at::Tensor(int64_t)>& of_piece) {
  if (pieces == 1) return of_piece(0);
  std::vector<at::Tensor> all;
  all.reserve(pieces);
  for (int64_t piece = 0; piece < pieces; ++piece) all.push_back(of_piece(piece));
  return at::cat(all);
}

}  // namespace weft
