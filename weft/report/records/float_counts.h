// FloatCounts: float32 values counted into the buckets of TensorBoard, with sums that have no rounding: counts of parts of a
// tensor add up to those of the whole, word by word and in any order.
//
// Buckets end at 0 and at +-1e-12 x 1.1^n below 1e20, as those of TensorFlow and PyTorch do by default. Values that are not
// finite are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "weft/report/records/record.h"

namespace weft {

class FloatCounts {
 public:
  FloatCounts();

  /// Counts `count` values, each divided by `divisor` and rounded to float32.
  void add(const float* values, int64_t count, double divisor = 1.0);
  /// Adds the counts of another part.
  void add(const FloatCounts& part);

  /// Sums: of parts, they are added up.
  std::vector<int64_t>& words() { return words_; }
  static int64_t num_words();
  /// {-least, greatest} value: of parts, the greater ones are taken.
  double (&bounds())[2] { return bounds_; }

  /// From the bucket before the first that has values to the last that has; empty if none has.
  std::optional<ValueHistogram> histogram() const;

 private:
  std::vector<int64_t> words_;  ///< of buckets; by exponent of the value, mantissas and halves of their squares
  double bounds_[2];
};

}  // namespace weft
