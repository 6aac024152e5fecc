// A row of a norm with its parameters, as device kernels see it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "weft/base/host_device.h"
#include "weft/nn/device_kernels/layer_memory.h"
#include "weft/nn/device_kernels/warp.h"

namespace weft {

/// A norm's parameters, or their gradients.
template <class Element>
struct Parameters {
  const NormMemory& m;

  WEFT_HOST_DEVICE bool are_wide() const { return !std::is_same_v<Element, Wide<Element>> && m.has_wide_parameters; }
  WEFT_HOST_DEVICE Wide<Element> at(const void* of, int64_t i) const {
    return are_wide() ? static_cast<const Wide<Element>*>(of)[i]
                      : static_cast<Wide<Element>>(static_cast<const Element*>(of)[i]);
  }
  WEFT_HOST_DEVICE void put(void* of, int64_t i, Wide<Element> value) const {
    if (are_wide()) {
      static_cast<Wide<Element>*>(of)[i] = value;
    } else {
      static_cast<Element*>(of)[i] = static_cast<Element>(value);
    }
  }
};

/// A row of a norm.
template <class Element>
struct NormRow {
  using Number = Wide<Element>;
  const NormMemory& m;
  const Element* x;  ///< the row
  int64_t place;     ///< of its first element
  Number mean, scale;

  /// The scaled element i.
  WEFT_HOST_DEVICE Number scaled(int64_t i) const { return (static_cast<Number>(x[i]) - mean) * scale; }
  /// Writes output i. RMS norm rounds before it multiplies by the weight, as published Llama implementations do.
  WEFT_HOST_DEVICE void put(int64_t i) const {
    const Parameters<Element> of{m};
    const Number n = scaled(i), w = of.at(m.weight, i);
    static_cast<Element*>(m.y)[place + i] =
        static_cast<Element>(m.bias ? n * w + of.at(m.bias, i) : static_cast<Number>(static_cast<Element>(n)) * w);
  }
};

/// A row whose statistics are known.
template <class Element>
WEFT_HOST_DEVICE NormRow<Element> known_row(const NormMemory& m, int64_t row) {
  using Number = Wide<Element>;
  const int64_t place = row * m.width;
  return {m, static_cast<const Element*>(m.x) + place, place, m.mean ? static_cast<const Number*>(m.mean)[row] : Number(0),
          static_cast<const Number*>(m.scale)[row]};
}

}  // namespace weft
