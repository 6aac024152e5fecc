#include "weft/base/multiples.h"

#include <fmt/core.h>

namespace weft {

std::string nearest_multiples(int64_t number, int64_t unit, int64_t most) {
  const int64_t below = number / unit * unit;
  const bool has_above = unit <= most && below <= most - unit;
  if (below == 0) return has_above ? fmt::format("{}", unit) : "";
  return has_above ? fmt::format("{} or {}", below, below + unit) : fmt::format("{}", below);
}

}  // namespace weft
