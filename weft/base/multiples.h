// nearest_multiples: suggestions for errors about a number that is not a multiple of another.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace weft {

/// Returns the multiples of `unit` next to `number`, from `unit` to `most`: "64 or 128"; empty if there are none.
std::string nearest_multiples(int64_t number, int64_t unit, int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace weft
