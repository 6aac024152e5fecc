// cross_entropy_kernels: the loss of rows of logits against one class each, and its gradient in the same pass over memory:
// softmax(x) minus 1 at the target.
#pragma once

#include <cstdint>

namespace weft {

/// Rows [rows, classes], each contiguous.
struct LossRows {
  const float* logits = nullptr;     ///< input
  const int64_t* targets = nullptr;  ///< [rows], each a class or `ignored`
  double* losses = nullptr;          ///< [rows]; 0 where the target is ignored
  float* gradient = nullptr;         ///< like logits; null: not computed
  int64_t rows = 0;                  ///< number of rows
  int64_t classes = 0;               ///< logits per row
  int64_t ignored = 0;               ///< target value that is not counted
};

/// Writes losses and gradient.
void cross_entropy_rows(const LossRows& rows);

}  // namespace weft
