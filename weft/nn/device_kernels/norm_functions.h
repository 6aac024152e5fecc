// What device kernels of norms compute of one row or column: compiled as element_functions.h is. Sums
// of rows (warp.h) and of columns have a fixed order.
#pragma once

#include <cmath>
#include <cstdint>

#include "weft/base/host_device.h"
#include "weft/nn/device_kernels/layer_memory.h"
#include "weft/nn/device_kernels/norm_row.h"
#include "weft/nn/device_kernels/warp.h"

namespace weft {

inline constexpr int kColumnGroups = 64;  ///< running sums of a column

/// Writes a row's output again.
template <class Element, class Warp>
WEFT_HOST_DEVICE void norm_row_again(const Warp& warp, const NormMemory& m, int64_t row) {
  const NormRow<Element> r = known_row<Element>(m, row);
  warp.each([&](int lane) {
    for (int64_t i = lane; i < m.width; i += kRowLanes) r.put(i);
  });
}

/// Writes a row's sum, statistics and output.
template <class Element, class Warp>
WEFT_HOST_DEVICE void norm_row(const Warp& warp, const NormMemory& m, int64_t row) {
  using Number = Wide<Element>;
  const int64_t place = row * m.width;
  const auto* given = static_cast<const Element*>(m.x) + place;
  const auto* added = m.added ? static_cast<const Element*>(m.added) + place : nullptr;
  auto* sum = added ? static_cast<Element*>(m.sum) + place : nullptr;
  const auto* x = added ? sum : given;
  Number total = 0;
  if (added || m.made_mean) {
    total = warp.sum([&](int lane) {
      Number part = 0;
      for (int64_t i = lane; i < m.width; i += kRowLanes) {
        if (added) sum[i] = static_cast<Element>(static_cast<Number>(given[i]) + static_cast<Number>(added[i]));
        part += static_cast<Number>(x[i]);
      }
      return part;
    });
  }
  const Number mean = m.made_mean ? total / static_cast<Number>(m.width) : Number(0);
  const Number squares = warp.sum([&](int lane) {
    Number part = 0;
    for (int64_t i = lane; i < m.width; i += kRowLanes) {
      const Number centred = static_cast<Number>(x[i]) - mean;
      part += centred * centred;
    }
    return part;
  }) / static_cast<Number>(m.width);
  const Number scale = Number(1) / std::sqrt(squares + static_cast<Number>(m.eps));
  const NormRow<Element> r{m, x, place, mean, scale};
  warp.each([&](int lane) {
    if (lane == 0 && m.made_mean) static_cast<Number*>(m.made_mean)[row] = mean;
    if (lane == 0) static_cast<Number*>(m.made_scale)[row] = scale;
    for (int64_t i = lane; i < m.width; i += kRowLanes) r.put(i);
  });
}

/// With n the scaled element and g = dy weight: writes dx = (g - mean(g) - n mean(g n)) scale + residual, where RMS norm
/// subtracts no mean, and the output again where there is `y`.
template <class Element, class Warp>
WEFT_HOST_DEVICE void norm_row_gradient(const Warp& warp, const NormMemory& m, int64_t row) {
  using Number = Wide<Element>;
  const NormRow<Element> r = known_row<Element>(m, row);
  const auto* dy = static_cast<const Element*>(m.dy) + r.place;
  const auto* residual = m.residual ? static_cast<const Element*>(m.residual) + r.place : nullptr;
  auto* dx = static_cast<Element*>(m.dx) + r.place;
  const Parameters<Element> of{m};
  const Two<Number> sums = warp.sum([&](int lane) {
    Two<Number> total;
    for (int64_t i = lane; i < m.width; i += kRowLanes) {
      const Number g = static_cast<Number>(dy[i]) * of.at(m.weight, i);
      total = total + Two<Number>{g, g * r.scaled(i)};
    }
    return total;
  });
  const auto count = static_cast<Number>(m.width);
  const Number mean_g = m.mean ? sums.first / count : Number(0), mean_gn = sums.second / count;
  warp.each([&](int lane) {
    for (int64_t i = lane; i < m.width; i += kRowLanes) {
      const Number g = static_cast<Number>(dy[i]) * of.at(m.weight, i);
      // Rounded before the residual gradient is added, as when autograd adds the two.
      const auto own = static_cast<Element>((g - mean_g - r.scaled(i) * mean_gn) * r.scale);
      dx[i] = residual ? static_cast<Element>(static_cast<Number>(own) + static_cast<Number>(residual[i])) : own;
      if (m.y) r.put(i);
    }
  });
}

/// A group's part of a column: sums over its rows of dy n, and of dy.
template <class Element>
WEFT_HOST_DEVICE Two<Wide<Element>> norm_column_part(const NormMemory& m, int64_t column, int group) {
  using Number = Wide<Element>;
  Two<Number> total;
  for (int64_t row = group; row < m.rows; row += kColumnGroups) {
    const NormRow<Element> r = known_row<Element>(m, row);
    const auto dy = static_cast<Number>(static_cast<const Element*>(m.dy)[r.place + column]);
    total = total + Two<Number>{dy * r.scaled(column), dy};
  }
  return total;
}

/// Writes the gradients of a column's weight and bias.
template <class Element>
WEFT_HOST_DEVICE void put_norm_column(const NormMemory& m, int64_t column, const Two<Wide<Element>>& sums) {
  const Parameters<Element> of{m};
  of.put(m.d_weight, column, sums.first);
  if (m.d_bias) of.put(m.d_bias, column, sums.second);
}

}  // namespace weft
