// column_sums_kernels: the sum over rows, in one pass in memory order.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Contiguous rows.
struct ColumnSumsRows {
  const void* x = nullptr;  ///< [rows, columns]
  float* sums = nullptr;    ///< [columns], output: groups of eight rows, summed pairwise, are added up in order
  int64_t rows = 0;
  int64_t columns = 0;
};

void column_sums_rows(Element element, const ColumnSumsRows& rows);

}  // namespace weft
