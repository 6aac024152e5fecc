#include "weft/report/records/float_counts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace weft {
namespace {

constexpr double kLeastLimit = 1e-12, kGreatestLimit = 1e20, kLimitGrowth = 1.1;

constexpr int count_limits() {
  int count = 0;
  for (double limit = kLeastLimit; limit < kGreatestLimit; limit *= kLimitGrowth) ++count;
  return count;
}
constexpr int kLimits = count_limits();
constexpr int kBuckets = 2 * (kLimits + 1);  ///< half of them below 0

// Words of a number are found by its bits: a sign, 8 bits of exponent, 23 of mantissa.
constexpr int kExponents = 255, kMantissaBits = 23, kHalfBits = 24, kBias = 150;
constexpr uint32_t kSignBit = 0x80000000, kMantissa = (1U << kMantissaBits) - 1, kInfinite = 0x7f800000;
constexpr int kSums = kBuckets, kLowSquares = kSums + kExponents, kHighSquares = kLowSquares + kExponents,
              kWords = kHighSquares + kExponents;

/// -number if `is_negative` is 1, not 0.
template <class Number>
Number with_sign(Number number, int is_negative) {
  const Number minus = -static_cast<Number>(is_negative);
  return (number ^ minus) - minus;
}

/// Numbers that share their leading bits differ by less than 1 %, so that at most one limit is among them.
constexpr int kCellBits = 16, kCells = static_cast<int>(kInfinite >> kCellBits);

struct Grid {
  std::array<double, kLimits + 1> limits{};  ///< above 0; then the greatest number
  std::array<uint16_t, kCells> below{};      ///< by leading bits: limits up to the least such number

  Grid() {
    double limit = kLeastLimit;
    for (int i = 0; i < kLimits; ++i, limit *= kLimitGrowth) limits[i] = limit;
    limits[kLimits] = std::numeric_limits<double>::max();
    for (int cell = 0; cell < kCells; ++cell) {
      const double least = std::bit_cast<float>(static_cast<uint32_t>(cell) << kCellBits);
      below[cell] = static_cast<uint16_t>(std::upper_bound(limits.begin(), limits.end(), least) - limits.begin());
    }
  }

  /// A bucket has its lower limit, not its upper one. Signs are as good as random, so there are no branches.
  int bucket_of(uint32_t magnitude, int is_negative) const {
    const double value = std::bit_cast<float>(magnitude);
    const int least = below[magnitude >> kCellBits];
    const int limits_below = least + static_cast<int>(limits[least] <= value);
    const int is_no_limit = static_cast<int>(limits[std::max(limits_below, 1) - 1] != value);
    return kLimits + 1 + with_sign(limits_below, is_negative) - (is_negative & is_no_limit);
  }
  double upper_limit(int bucket) const {
    if (bucket > kLimits) return limits[bucket - kLimits - 1];
    return bucket == kLimits ? 0.0 : -limits[kLimits - bucket - 1];
  }
};

const Grid& grid() {
  static const Grid grid;
  return grid;
}

/// The unit of mantissas is 2^(exponent - 150), as that of subnormal numbers is that of the least normal ones.
double sum_by_exponent(const std::vector<int64_t>& words, int first, int power) {
  double sum = 0.0;
  for (int i = 0; i < kExponents; ++i)
    sum += std::ldexp(static_cast<double>(words[first + i]), power * (std::max(i, 1) - kBias));
  return sum;
}

}  // namespace

FloatCounts::FloatCounts()
    : words_(kWords), bounds_{-std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()} {}

int64_t FloatCounts::num_words() { return kWords; }

void FloatCounts::add(const float* values, int64_t count, double divisor) {
  const Grid& all = grid();
  int64_t* words = words_.data();
  float least = std::numeric_limits<float>::infinity(), greatest = -least;
  for (int64_t i = 0; i < count; ++i) {
    const float value = divisor == 1.0 ? values[i] : static_cast<float>(values[i] / divisor);
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & ~kSignBit;
    if (magnitude >= kInfinite) continue;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    const int is_negative = static_cast<int>(bits != magnitude) & static_cast<int>(magnitude != 0);
    ++words[all.bucket_of(magnitude, is_negative)];
    const auto exponent = static_cast<int>(magnitude >> kMantissaBits);
    const auto mantissa = static_cast<int64_t>((magnitude & kMantissa) | (exponent > 0 ? kMantissa + 1 : 0));
    const int64_t square = mantissa * mantissa;
    words[kSums + exponent] += with_sign(mantissa, is_negative);
    words[kLowSquares + exponent] += square & ((int64_t{1} << kHalfBits) - 1);
    words[kHighSquares + exponent] += square >> kHalfBits;
  }
  bounds_[0] = std::max<double>(bounds_[0], -least);
  bounds_[1] = std::max<double>(bounds_[1], greatest);
}

void FloatCounts::add(const FloatCounts& part) {
  for (int i = 0; i < kWords; ++i) words_[i] += part.words_[i];
  for (int i = 0; i < 2; ++i) bounds_[i] = std::max(bounds_[i], part.bounds_[i]);
}

std::optional<ValueHistogram> FloatCounts::histogram() const {
  const auto begin = words_.begin(), end = begin + kBuckets;
  const auto has_values = [](int64_t count) { return count != 0; };
  const auto first = static_cast<int>(std::find_if(begin, end, has_values) - begin);
  if (first == kBuckets) return std::nullopt;
  int last = kBuckets - 1;
  while (words_[last] == 0) --last;
  const double squares =
      std::ldexp(sum_by_exponent(words_, kHighSquares, 2), kHalfBits) + sum_by_exponent(words_, kLowSquares, 2);
  ValueHistogram histogram{.min = -bounds_[0], .max = bounds_[1], .sum = sum_by_exponent(words_, kSums, 1), .squares = squares};
  if (first == 0) {  // it has no lower limit
    histogram.limits.push_back(-std::numeric_limits<double>::max());
    histogram.counts.push_back(0.0);
  }
  for (int bucket = std::max(first - 1, 0); bucket <= last; ++bucket) {
    histogram.limits.push_back(grid().upper_limit(bucket));
    histogram.counts.push_back(static_cast<double>(words_[bucket]));
    histogram.count += histogram.counts.back();
  }
  return histogram;
}

}  // namespace weft
