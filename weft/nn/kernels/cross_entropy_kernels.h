// cross_entropy_kernels: the loss of rows of logits against one class each, and its gradient in the same pass over memory:
// softmax(x) less 1 at the target.
#pragma once

#include <cstdint>

namespace weft {

/// Rows [rows, classes] whose elements lie side by side.
struct LossRows {
  const float* logits = nullptr;     ///< what goes in
  const int64_t* targets = nullptr;  ///< [rows], each a class or `ignored`
  double* losses = nullptr;          ///< [rows]; 0 where the target is ignored
  float* gradient = nullptr;         ///< like logits; null: not wanted
  int64_t rows = 0;                  ///< of logits
  int64_t classes = 0;               ///< logits of a row
  int64_t ignored = 0;               ///< a target that counts nothing
};

/// Writes losses and gradient.
void cross_entropy_rows(const LossRows& rows);

}  // namespace weft
