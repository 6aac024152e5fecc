// ExactSum: a sum of non-negative numbers without rounding, so that neither order nor grouping changes a bit of it.
//
// A fixed-point number of 32-bit digits, each in a 64-bit word (Kulisch's accumulator): words of several sums add up word by
// word as integers, which is how ranks join theirs with an ordinary all_reduce. A word that fills up is carried into the next
// one. Good for any number of additions, and for values from 2^-320 to 2^287: sums of squares of float32.
#pragma once

#include <array>
#include <cstdint>

namespace weft {

/// A sum of non-negative numbers that is exact until value() is asked for.
class ExactSum {
 public:
  static constexpr int kWords = 20;  ///< of 32 bits each

  /// Adds `value` >= 0; its bits below 2^-320 are dropped. Infinite and not-a-number values make value() not a number.
  void add(double value);
  /// The sum as a double, the same whatever the order of additions; within two units in the last place.
  double value() const;

  /// Leaves the value, and a single digit in every word but the highest; to be called before 2 sums or more, up to 2^30 of
  /// them, are added up word by word.
  void carry();
  /// What ranks add up, word by word: kWords of digits, then the number of values that were not finite.
  std::array<int64_t, kWords + 1>& words() { return words_; }
  /// The same words, to be read.
  const std::array<int64_t, kWords + 1>& words() const { return words_; }

 private:
  std::array<int64_t, kWords + 1> words_{};
};

}  // namespace weft
