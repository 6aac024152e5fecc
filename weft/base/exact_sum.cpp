#include "weft/base/exact_sum.h"

#include <cmath>
#include <limits>

namespace weft {
namespace {

constexpr int kLowest = -320;  // exponent of the lowest digit's lowest bit
constexpr int kDigit = 32;
constexpr uint64_t kDigitMask = 0xffffffff;
constexpr int64_t kFull = int64_t{1} << 62;

}  // namespace

void ExactSum::add(double value) {
  if (value == 0.0) return;
  constexpr int kHighest = kLowest + kWords * kDigit;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  if (!std::isfinite(value) || value < 0.0 || exponent > kHighest - 1) {
    ++words_[kWords];
    return;
  }
  auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, 53));
  int position = exponent - 53 - kLowest;
  if (position < 0) {
    if (position <= -53) return;
    mantissa >>= -position;
    position = 0;
  }
  int word = position / kDigit;
  const int shift = position % kDigit;
  // 53 bits shifted by up to 31 touch three digits.
  const uint64_t low = mantissa << shift;
  const uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
  bool is_full = false;
  for (const uint64_t digit : {low & kDigitMask, low >> kDigit, high}) {
    if (word == kWords) break;
    words_[word] += static_cast<int64_t>(digit);
    is_full = is_full || words_[word] >= kFull;
    ++word;
  }
  if (is_full) carry();
}

void ExactSum::carry() {
  for (int i = 0; i + 1 < kWords; ++i) {
    words_[i + 1] += words_[i] >> kDigit;
    words_[i] &= static_cast<int64_t>(kDigitMask);
  }
}

double ExactSum::value() const {
  if (words_[kWords] != 0) return std::numeric_limits<double>::quiet_NaN();
  std::array<uint64_t, kWords + 1> digits{};
  uint64_t carry = 0;
  for (int i = 0; i < kWords; ++i) {
    const uint64_t sum = static_cast<uint64_t>(words_[i]) + carry;
    digits[i] = sum & kDigitMask;
    carry = sum >> kDigit;
  }
  digits[kWords] = carry;
  int top = kWords;
  while (top > 0 && digits[top] == 0) --top;
  // Three digits hold at least 65 significant bits, more than a double takes.
  double result = 0.0;
  for (int i = top; i >= 0 && i > top - 3; --i) result += std::ldexp(static_cast<double>(digits[i]), kLowest + i * kDigit);
  return result;
}

}  // namespace weft
