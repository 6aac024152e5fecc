// The largest magnitude of floats, in vectors: as fast as memory can be read.
#pragma once

#include <cstdint>

namespace weft {

/// Returns the largest magnitude, as the bits of a float32 without its sign. These order like magnitudes: infinity above all
/// numbers, NaN above infinity. 0 if there are no values.
int32_t largest_magnitude(const float* values, int64_t count);

}  // namespace weft
