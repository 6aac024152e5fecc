// The arithmetic of random numbers (nn/random.h), for the host and for device kernels: integers and single IEEE operations, so
// the bits are the same everywhere as long as no compiler contracts a * b + c into one operation (-ffp-contract=off,
// --fmad=false). A test pins the bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "weft/base/hash.h"
#include "weft/base/host_device.h"

namespace weft {

/// A name's stream of numbers at a step. `name`: splitmix64 of the name's FNV-1a.
WEFT_HOST_DEVICE inline uint64_t stream_at(uint64_t name, int64_t step) {
  return splitmix64(name ^ static_cast<uint64_t>(step));
}

/// A block of Philox4x32-10: elements 4 b to 4 b + 3 of a stream for counter b.
struct PhiloxBlock {
  uint32_t word[4];
};

WEFT_HOST_DEVICE inline PhiloxBlock philox_block(uint64_t seed, uint64_t stream, uint64_t counter) {
  constexpr uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiply0 * c0, product1 = kMultiply1 * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(product0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

WEFT_HOST_DEVICE inline uint32_t bits_of_float(float x) {
  uint32_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

WEFT_HOST_DEVICE inline float float_of_bits(uint32_t bits) {
  float x = 0.0f;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/// ln u for u in (0, 1]: Cephes' logf, without its branches.
WEFT_HOST_DEVICE inline float log_of(float u) {
  constexpr uint32_t kSqrtHalf = 0x3f3504f3;
  const uint32_t bits = bits_of_float(u) + (0x3f800000 - kSqrtHalf);
  const auto exponent = static_cast<float>(static_cast<int32_t>(bits >> 23) - 127);
  const float x = float_of_bits((bits & 0x7fffff) + kSqrtHalf) - 1.0f;
  const float z = x * x;
  float y = 7.0376836292e-2f;
  y = y * x - 1.1514610310e-1f;
  y = y * x + 1.1676998740e-1f;
  y = y * x - 1.2420140846e-1f;
  y = y * x + 1.4249322787e-1f;
  y = y * x - 1.6668057665e-1f;
  y = y * x + 2.0000714765e-1f;
  y = y * x - 2.4999993993e-1f;
  y = y * x + 3.3333331174e-1f;
  y = y * x * z + exponent * -2.12194440e-4f - 0.5f * z;
  return x + y + exponent * 0.693359375f;
}

/// Cosine and sine of 2 pi turn / 2^32: the nearest quarter turn exactly, the rest by Cephes' polynomials on [-pi/4, pi/4].
WEFT_HOST_DEVICE inline void cos_sin(uint32_t turn, float& cosine, float& sine) {
  const uint32_t quarter = (turn + (1u << 29)) >> 30;
  const auto rest = static_cast<float>(static_cast<int32_t>(turn - (quarter << 30)));
  const float x = rest * (1.57079632679f / (1 << 30));
  const float z = x * x;
  const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
  const float c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
  const uint32_t odd = 0u - (quarter & 1), s_bits = bits_of_float(s), c_bits = bits_of_float(c);
  const uint32_t cosine_bits = (c_bits & ~odd) | (s_bits & odd), sine_bits = (s_bits & ~odd) | (c_bits & odd);
  cosine = float_of_bits(cosine_bits ^ (((quarter + 1) & 2) << 30));
  sine = float_of_bits(sine_bits ^ ((quarter & 2) << 30));
}

/// Square of the radius of two normal numbers (Box and Muller 1958) from a word. Range of the uniform number: (0, 1], as the
/// half keeps zero away from the logarithm.
WEFT_HOST_DEVICE inline float squared_radius(uint32_t word) {
  return -2.0f * log_of((static_cast<float>(static_cast<int32_t>(word >> 1)) + 0.5f) * 0x1p-31f);
}

/// A uniform number in [0, 1), a multiple of 2^-24.
WEFT_HOST_DEVICE inline float uniform_of(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f;
}

/// Element `i` of a stream of words.
WEFT_HOST_DEVICE inline uint32_t random_word(uint64_t seed, uint64_t stream, int64_t i) {
  return philox_block(seed, stream, static_cast<uint64_t>(i) / 4).word[i % 4];
}

/// Element `i` of a stream of standard normal numbers: words 0 and 1 of a block give elements 0 and 1, words 2 and 3 the
/// others.
WEFT_HOST_DEVICE inline float random_normal(uint64_t seed, uint64_t stream, int64_t i) {
  const PhiloxBlock block = philox_block(seed, stream, static_cast<uint64_t>(i) / 4);
  const int pair = static_cast<int>(i % 4) & 2;
  float cosine = 0.0f, sine = 0.0f;
  cos_sin(block.word[pair + 1], cosine, sine);
  return sqrtf(squared_radius(block.word[pair])) * (i % 2 == 0 ? cosine : sine);
}

}  // namespace weft
