// column_sums_kernels: the sum over rows, in one pass that reads them as they lie.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Rows that lie side by side.
struct ColumnSumsRows {
  const void* x = nullptr;  ///< [rows, columns]
  float* sums = nullptr;    ///< [columns], what is written: of eight rows pairwise, those one after another
  int64_t rows = 0;
  int64_t columns = 0;
};

void column_sums_rows(Element element, const ColumnSumsRows& rows);

}  // namespace weft
