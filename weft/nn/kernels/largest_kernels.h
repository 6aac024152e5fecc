// The largest magnitude of floats, in vectors: as fast as they can be read.
#pragma once

#include <cstdint>

namespace weft {

/// As the bits of a float32 without its sign, which order as magnitudes do: infinity above all numbers, and what is no number
/// above that. 0 of none.
int32_t largest_magnitude(const float* values, int64_t count);

}  // namespace weft
