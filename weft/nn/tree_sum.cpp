#include "weft/nn/tree_sum.h"

#include <fmt/core.h>

#include <bit>

#include "weft/base/error.h"

namespace weft {

at::Tensor tree_sum(int64_t pieces, const std::function<at::Tensor(int64_t)>& term) {
  if (pieces < 1 || !std::has_single_bit(static_cast<uint64_t>(pieces)))
    throw InputError(fmt::format("sum of {} pieces: their number is a power of two", pieces));
  if (pieces == 1) return term(0);
  const int64_t half = pieces / 2;
  at::Tensor sum = tree_sum(half, term);
  return sum.add_(tree_sum(half, [&](int64_t piece) { return term(half + piece); }));
}

}  // namespace weft
