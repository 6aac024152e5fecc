#include "weft/engine/votes.h"

#include <fmt/format.h>

#include "weft/base/error.h"

namespace weft {

std::vector<double> votes_of(const Votes& votes, int count, int64_t step) {
  if (!votes.of_rank) return std::vector<double>(static_cast<size_t>(count));
  std::vector<double> own = votes.of_rank();
  if (static_cast<int>(own.size()) == count) return own;
  throw InputError(fmt::format("step {}: Votes::of_rank gives {} numbers, but Votes::count, the same on all ranks, is {}",
                               step + 1, own.size(), count));
}

}  // namespace weft
