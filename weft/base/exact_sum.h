// ExactSum: a sum of non-negative numbers without rounding, so order and grouping never change a bit of the result.
//
// The sum is a fixed-point number of 32-bit digits, each in a 64-bit word (Kulisch's accumulator). Several sums can be added
// word by word as integers, so ranks combine theirs with an ordinary all_reduce. A full word carries into the next one. Any
// number of additions works, for values from 2^-320 to 2^287: enough for sums of squares of float32.
#pragma once

#include <array>
#include <cstdint>

#include "weft/base/exact_digits.h"

namespace weft {

/// A sum of non-negative numbers, exact until value() rounds it.
class ExactSum {
 public:
  static constexpr int kWords = kSumDigits;  ///< digits of 32 bits

  /// Adds `value` >= 0, dropping bits below 2^-320. Infinite and NaN values make value() NaN.
  void add(double value);
  /// Returns the sum as a double, independent of the order of additions, within two units in the last place.
  double value() const;

  /// Normalises to a single digit in every word except the highest, without changing the value. Call it before adding several
  /// sums (at most 2^30) word by word.
  void carry();
  /// Words that ranks add up: kWords of digits, then the number of non-finite values.
  std::array<int64_t, kWords + 1>& words() { return words_; }
  /// Read-only access to the same words.
  const std::array<int64_t, kWords + 1>& words() const { return words_; }

 private:
  std::array<int64_t, kWords + 1> words_{};
};

}  // namespace weft
