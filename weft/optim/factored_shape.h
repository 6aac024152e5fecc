// FactoredShape: means over rows and columns that represent the squares of a tensor's gradients.
#pragma once

#include <c10/util/accumulate.h>

#include <cstdint>
#include <vector>

namespace weft {

/// Shapes of the means of a tensor [..., rows, columns].
struct FactoredShape {
  std::vector<int64_t> rows;                                               ///< [..., rows, 1]
  std::vector<int64_t> columns;                                            ///< [..., 1, columns]
  int64_t num_rows() const { return c10::multiply_integers(rows); }        ///< elements of the row means
  int64_t num_columns() const { return c10::multiply_integers(columns); }  ///< elements of the column means
};

/// `shape` must have two dimensions or more.
inline FactoredShape factored_shape(const std::vector<int64_t>& shape) {
  FactoredShape factored{shape, shape};
  factored.rows[shape.size() - 1] = 1;
  factored.columns[shape.size() - 2] = 1;
  return factored;
}

/// Number of elements in the means of a tensor; for a vector or scalar, its own number of elements.
inline int64_t factored_numel(const std::vector<int64_t>& shape) {
  if (shape.size() < 2) return c10::multiply_integers(shape);
  const FactoredShape factored = factored_shape(shape);
  return factored.num_rows() + factored.num_columns();
}

}  // namespace weft
