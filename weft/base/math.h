// Integer arithmetic for layouts: powers of two and rounding. Arguments are not negative, divisors positive.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace weft {

constexpr bool is_power_of_two(int64_t x) { return x > 0 && std::has_single_bit(static_cast<uint64_t>(x)); }

/// The smallest power of two that is at least `x`; 1 for 0.
constexpr int64_t ceil_power_of_two(int64_t x) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(x))); }

/// The largest power of two that is at most `x`; 0 for 0.
constexpr int64_t floor_power_of_two(int64_t x) { return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(x))); }

/// The exponent of the largest power of two that is at most `x`, which must be positive.
constexpr int floor_log2(int64_t x) { return std::bit_width(static_cast<uint64_t>(x)) - 1; }

template <std::integral Int>
constexpr Int ceil_divide(Int x, std::type_identity_t<Int> divisor) {
  return (x + divisor - 1) / divisor;
}

/// The smallest multiple of `step` that is at least `x`.
template <std::integral Int>
constexpr Int round_up(Int x, std::type_identity_t<Int> step) {
  return ceil_divide(x, step) * step;
}

/// Padding and alignment of parts of flat buffers, in elements: no shard boundary cuts a vector or a cache line.
inline constexpr int64_t kAlignElements = 64;

}  // namespace weft
