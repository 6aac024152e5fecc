// What the device kernels of cross-entropy compute of one row of logits: compiled as element_functions.h is. A row is read once
// for its loss, with a running maximum per lane (Milakov & Gimelshein 2018, arXiv:1805.02867), and once for its gradient.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "weft/base/host_device.h"
#include "weft/nn/device_kernels/activation_functions.h"
#include "weft/nn/device_kernels/layer_memory.h"
#include "weft/nn/device_kernels/warp.h"

namespace weft {

// As constants, which CUDA's compiler takes in kernels.
template <class Number>
inline constexpr Number kInfinite = std::numeric_limits<Number>::infinity();
template <class Number>
inline constexpr Number kNoNumber = std::numeric_limits<Number>::quiet_NaN();

/// The largest of some logits, and the sum of their exponentials divided by its own.
template <class Number>
struct Powers {
  Number largest = -kInfinite<Number>, sum = 0;

  WEFT_HOST_DEVICE static Number of(Number x, Number largest) { return x == largest ? Number(1) : exponential_of(x - largest); }
  WEFT_HOST_DEVICE void add(Number x) {
    if (x > largest) {
      sum = sum * of(largest, x) + Number(1);
      largest = x;
    } else {
      sum += of(x, largest);
    }
  }
  WEFT_HOST_DEVICE Powers operator+(const Powers& other) const {
    const Number most = other.largest > largest ? other.largest : largest;
    return {most, sum * of(largest, most) + other.sum * of(other.largest, most)};
  }
};

/// Writes a row's loss, its largest logit and the logarithm of the sum of exponentials relative to that: zeros where its target
/// is ignored. The loss of what is no class is not a number.
template <class Element, class Warp>
WEFT_HOST_DEVICE void loss_row(const Warp& warp, const LossMemory& m, int64_t row) {
  using Number = Wide<Element>;
  const auto* x = static_cast<const Element*>(m.logits) + row * m.classes;
  const int64_t target = m.targets[row];
  const bool counts = target != m.ignored;
  Powers<Number> powers;
  if (counts) {
    powers = warp.sum([&](int lane) {
      Powers<Number> part;
      for (int64_t i = lane; i < m.classes; i += kRowLanes) part.add(static_cast<Number>(x[i]));
      return part;
    });
  }
  const Number log_of_sum = counts ? std::log(powers.sum) : Number(0);
  warp.each([&](int lane) {
    if (lane != 0) return;
    const bool is_class = target >= 0 && target < m.classes;
    const Number own = is_class ? static_cast<Number>(x[target]) : kNoNumber<Number>;
    static_cast<Number*>(m.losses)[row] = counts ? log_of_sum + (powers.largest - own) : Number(0);
    auto* log_sums = static_cast<Number*>(m.log_sums);
    log_sums[row] = counts ? powers.largest : Number(0);
    log_sums[m.rows + row] = log_of_sum;
  });
}

/// Writes a row's gradient: `factor` times (its probabilities - 1 at the target).
template <class Element, class Warp>
WEFT_HOST_DEVICE void loss_row_gradient(const Warp& warp, const LossMemory& m, int64_t row) {
  using Number = Wide<Element>;
  const auto* x = static_cast<const Element*>(m.logits) + row * m.classes;
  auto* dx = static_cast<Element*>(m.gradient) + row * m.classes;
  const int64_t target = m.targets[row];
  const auto* log_sums = static_cast<const Number*>(m.log_sums);
  const Number largest = log_sums[row], log_of_sum = log_sums[m.rows + row];
  const Number factor = target == m.ignored ? Number(0) : *static_cast<const Number*>(m.factor);
  warp.each([&](int lane) {
    for (int64_t i = lane; i < m.classes; i += kRowLanes) {
      const Number share = exponential_of((static_cast<Number>(x[i]) - largest) - log_of_sum);
      const Number slope = i == target ? share - Number(1) : share;
      dx[i] = static_cast<Element>(target == m.ignored ? Number(0) : slope * factor);
    }
  });
}

}  // namespace weft
