// multiples_beside: what errors name where a number does not divide.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace weft {

/// "64 or 128": the multiples of `unit` beside `number`, from `unit` to `most`; empty where there are none.
std::string multiples_beside(int64_t number, int64_t unit, int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace weft
