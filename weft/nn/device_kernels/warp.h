// A row of elements, shared by a warp's lanes: lane l has elements l, l + 32, ... in every pass. HostWarp runs the lanes one
// after the other; in CUDA kernels they are threads.
#pragma once

#include <type_traits>

#include "weft/base/host_device.h"

namespace weft {

inline constexpr int kRowLanes = 32;  ///< lanes of a warp

/// Type that elements are computed in.
template <class Element>
using Wide = std::conditional_t<std::is_same_v<Element, double>, double, float>;

/// Two sums at once.
template <class Number>
struct Two {
  Number first = 0, second = 0;
  WEFT_HOST_DEVICE Two operator+(const Two& other) const { return {first + other.first, second + other.second}; }
};

/// The lanes of a row, in another order than their own.
struct HostWarp {
  /// Calls of(lane) for all lanes.
  template <class Of>
  void each(const Of& of) const {
    for (int i = 0; i < kRowLanes; ++i) of(i * 13 % kRowLanes);
  }
  /// The sum of part(lane): halves are added until one is left.
  template <class Part>
  auto sum(const Part& part) const {
    decltype(part(0)) parts[kRowLanes];
    each([&](int lane) { parts[lane] = part(lane); });
    for (int half = kRowLanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) parts[i] = parts[i] + parts[i + half];
    }
    return parts[0];
  }
};

}  // namespace weft
