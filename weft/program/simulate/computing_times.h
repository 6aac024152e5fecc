// ComputingTimes: time on a device by kind of operator.
#pragma once

namespace weft {

/// Seconds by kind of operator.
struct ComputingTimes {
  double products = 0.0;                                                           ///< matrix products
  double attention = 0.0;                                                          ///< attention
  double memory_bound = 0.0;                                                       ///< everything else that a device runs
  double overhead = 0.0;                                                           ///< launches, and what has no kind
  double total() const { return products + attention + memory_bound + overhead; }  ///< of all
  /// Adds kind by kind.
  ComputingTimes& operator+=(const ComputingTimes& other) {
    products += other.products, attention += other.attention;
    memory_bound += other.memory_bound, overhead += other.overhead;
    return *this;
  }
};

}  // namespace weft
