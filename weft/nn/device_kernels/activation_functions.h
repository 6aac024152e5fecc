// What device kernels of activations and of rotary embedding compute of one element: compiled as element_functions.h is.
#pragma once

#include <cmath>
#include <cstdint>

#include "weft/base/host_device.h"
#include "weft/base/philox.h"
#include "weft/nn/device_kernels/layer_memory.h"
#include "weft/nn/device_kernels/warp.h"

namespace weft {

/// e^x up to 88, zero below -87.3: Cephes' expf, as in nn/kernels/exponential_inl.h. Not a number stays so.
WEFT_HOST_DEVICE inline float exponential_of(float x) {
  const float rounded = x * 1.44269504f + 12582912.0f, n = rounded - 12582912.0f;
  const float r = x - n * 0.693359375f - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return x < -87.3f ? 0.0f : p * float_of_bits((bits_of_float(rounded) + 127u) << 23);
}
/// e^x.
WEFT_HOST_DEVICE inline double exponential_of(double x) { return std::exp(x); }

/// x within the limits; not a number stays so.
template <class Number>
WEFT_HOST_DEVICE Number between(Number low, Number x, Number high) {
  return x < low ? low : x > high ? high : x;
}

/// GELU by its tanh formula: x sigmoid(2 z), z = sqrt(2 / pi) (x + 0.044715 x^3). Beyond +-kFar it is x or below 1e-34, and its
/// gradient 1 or zero.
template <class Number>
struct Gelu {
  static constexpr Number kTwoRoots = 1.5957691216057308, kCubic = 0.044715, kFar = 10;
  Number low, near, power, sigmoid;

  WEFT_HOST_DEVICE explicit Gelu(Number x)
      : low(x < -kFar ? -kFar : x),
        near(between(-kFar, x, kFar)),
        power(exponential_of(near * (near * near * (-kTwoRoots * kCubic) - kTwoRoots))),
        sigmoid(Number(1) / (Number(1) + power)) {}
  WEFT_HOST_DEVICE Number value() const { return low * sigmoid; }
  /// The power may be huge where the sigmoid is tiny: they are multiplied first, which gives 1 - sigmoid.
  WEFT_HOST_DEVICE Number slope() const {
    return sigmoid + near * sigmoid * (power * sigmoid) * (near * near * (3 * kTwoRoots * kCubic) + kTwoRoots);
  }
};

/// silu(x) = x sigmoid(x). Beyond +-kFar it is x or below 1e-35, and its gradient 1 or zero.
template <class Number>
struct Silu {
  static constexpr Number kFar = 87;
  Number sigmoid, value;

  WEFT_HOST_DEVICE explicit Silu(Number x)
      : sigmoid(Number(1) / (Number(1) + exponential_of(-between(-kFar, x, kFar)))), value((x < -kFar ? -kFar : x) * sigmoid) {}
  WEFT_HOST_DEVICE Number slope() const { return sigmoid + (value > kFar ? kFar : value) * (Number(1) - sigmoid); }
};

/// Writes output i.
template <class Element>
WEFT_HOST_DEVICE void activate(const ActivationMemory& m, int64_t i) {
  using Number = Wide<Element>;
  const auto at = [i](const void* of) { return static_cast<Number>(static_cast<const Element*>(of)[i]); };
  const Number y = m.up ? Silu<Number>(at(m.x)).value * at(m.up) : Gelu<Number>(at(m.x)).value();
  static_cast<Element*>(m.y)[i] = static_cast<Element>(y);
}

/// Writes the gradients of inputs i, and output i again where there is `y`, after all of i is read.
template <class Element>
WEFT_HOST_DEVICE void activation_gradient(const ActivationMemory& m, int64_t i) {
  using Number = Wide<Element>;
  const auto at = [i](const void* of) { return static_cast<Number>(static_cast<const Element*>(of)[i]); };
  const auto put = [i](void* of, Number value) {
    if (of) static_cast<Element*>(of)[i] = static_cast<Element>(value);
  };
  const Number dy = at(m.dy);
  if (!m.up) {
    const Gelu<Number> gelu(at(m.x));
    put(m.y, gelu.value());
    return put(m.dx, dy * gelu.slope());
  }
  const Silu<Number> silu(at(m.x));
  const Number up = at(m.up);
  put(m.y, silu.value * up);
  put(m.dx, dy * up * silu.slope());
  put(m.d_up, dy * silu.value);
}

/// Turns pair i: elements j and j + half of a token's head. Products are rounded before their sum.
template <class Element>
WEFT_HOST_DEVICE void turn_pair(const RotaryMemory& m, int64_t i) {
  using Number = Wide<Element>;
  const int64_t j = i % m.half, token = i / m.half % m.tokens, head = i / m.half / m.tokens % m.heads,
                sample = i / m.half / m.tokens / m.heads;
  const auto* x = static_cast<const Element*>(m.x) + sample * m.x_sample + head * m.x_head + token * m.x_token + j;
  auto* y = static_cast<Element*>(m.y) + sample * m.y_sample + head * m.y_head + token * m.y_token + j;
  const int64_t angle = sample * m.angle_sample + token * m.angle_token + j;
  const auto low = static_cast<Number>(x[0]), high = static_cast<Number>(x[m.half]);
  const auto cosine = static_cast<Number>(static_cast<const Element*>(m.cos)[angle]);
  const auto sine = static_cast<Number>(static_cast<const Element*>(m.sin)[angle]) * static_cast<Number>(m.direction);
  y[0] = static_cast<Element>(low * cosine - high * sine);
  y[m.half] = static_cast<Element>(high * cosine + low * sine);
}

}  // namespace weft
