// Digits of a number in an exact sum (base/exact_sum.h), for the host and for device kernels.
#pragma once

#include <cstdint>
#include <cstring>

#include "weft/base/host_device.h"

namespace weft {

inline constexpr int kSumDigits = 20;             ///< digits of an exact sum, of 32 bits each, in words of 64
inline constexpr int kSumWords = kSumDigits + 1;  ///< then the number of values that were not finite
inline constexpr int kLowestSumBit = -320;        ///< exponent of the lowest digit's lowest bit
inline constexpr int kSumDigitBits = 32;
inline constexpr uint64_t kSumDigitMask = 0xffffffff;
/// What a rank adds to the number of values that were not finite in a sum of gradients' squares, if a change of statistics is
/// not: more than there are runs.
inline constexpr int64_t kBadStatistics = int64_t{1} << 48;

/// Up to three neighbouring digits.
struct ExactDigits {
  int word = 0;                    ///< word of the first
  uint64_t digits[3] = {0, 0, 0};  ///< those in words from kSumDigits on are 0
  bool is_summable = true;         ///< false: not finite, negative or 2^319 and more, and without digits
};

/// Returns the digits of a number; bits below 2^-320 are dropped.
WEFT_HOST_DEVICE inline ExactDigits exact_digits(double value) {
  constexpr int kMantissaBits = 52, kBias = 1075;  // value = mantissa x 2^(exponent - bias)
  constexpr uint64_t kExponents = 0x7ff, kLeading = uint64_t{1} << kMantissaBits;
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  ExactDigits result;
  if (bits << 1 == 0) return result;  // zero
  const int exponent = static_cast<int>((bits >> kMantissaBits) & kExponents);
  int position = exponent - kBias - kLowestSumBit;
  const bool is_negative = bits >> 63 != 0, is_large = position + kMantissaBits + 1 >= kSumDigits * kSumDigitBits;
  if (is_negative || is_large) {
    result.is_summable = false;
    return result;
  }
  uint64_t mantissa = (bits & (kLeading - 1)) | (exponent == 0 ? 0 : kLeading);
  if (position < 0) {
    mantissa = position <= -kMantissaBits - 1 ? 0 : mantissa >> -position;
    position = 0;
  }
  const int shift = position % kSumDigitBits;
  // 53 bits shifted by up to 31 touch three digits.
  const uint64_t low = mantissa << shift;
  result.word = position / kSumDigitBits;
  result.digits[0] = low & kSumDigitMask;
  result.digits[1] = low >> kSumDigitBits;
  result.digits[2] = shift == 0 ? 0 : mantissa >> (64 - shift);
  return result;
}

/// Leaves a single digit in every word except the highest, without changing the sum.
WEFT_HOST_DEVICE inline void carry_digits(int64_t* words) {
  for (int i = 0; i + 1 < kSumDigits; ++i) {
    words[i + 1] += words[i] >> kSumDigitBits;
    words[i] &= static_cast<int64_t>(kSumDigitMask);
  }
}

/// Adds a number to a sum, whose words must have room: below 2^62.
WEFT_HOST_DEVICE inline void add_digits(double value, int64_t* words) {
  const ExactDigits number = exact_digits(value);
  if (!number.is_summable) ++words[kSumDigits];
  for (int i = 0; i < 3 && number.word + i < kSumDigits; ++i) words[number.word + i] += static_cast<int64_t>(number.digits[i]);
}

/// 2^exponent, for exponents of normal numbers.
WEFT_HOST_DEVICE inline double power_of_two(int exponent) {
  constexpr int kBias = 1023, kMantissaBits = 52;
  const uint64_t bits = static_cast<uint64_t>(exponent + kBias) << kMantissaBits;
  double power = 0.0;
  memcpy(&power, &bits, sizeof power);
  return power;
}

/// Returns the sum as a double, within two units in the last place; NaN if a value was not finite.
WEFT_HOST_DEVICE inline double exact_value(const int64_t* words) {
  uint64_t digits[kSumDigits + 1], carry = 0;
  for (int i = 0; i < kSumDigits; ++i) {
    const uint64_t sum = static_cast<uint64_t>(words[i]) + carry;
    digits[i] = sum & kSumDigitMask;
    carry = sum >> kSumDigitBits;
  }
  digits[kSumDigits] = carry;
  int top = kSumDigits;
  while (top > 0 && digits[top] == 0) --top;
  // Three digits hold at least 65 significant bits, more than a double takes.
  double result = 0.0;
  for (int i = top; i >= 0 && i > top - 3; --i) {
    result += static_cast<double>(digits[i]) * power_of_two(kLowestSumBit + i * kSumDigitBits);
  }
  if (words[kSumDigits] == 0) return result;
  const uint64_t not_a_number = 0x7ff8000000000000u;
  memcpy(&result, &not_a_number, sizeof result);
  return result;
}

}  // namespace weft
