// KeptGradients: copies of the gradients that a rank owns, from before their update, which may change them. Memory: those
// gradients once more, until they are taken.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>

#include "weft/nn/flat/flat_model.h"

namespace weft {

class KeptGradients {
 public:
  /// Before an update of the block in this step, counted from 0; the first call counts.
  void keep(FlatModel& model, int block, int64_t step);
  /// [owned] of the block in that step; undefined: it had no update.
  at::Tensor take(int block, int64_t step);
  /// Lets go of those that nobody takes: of tied copies.
  void clear() { blocks_.clear(); }

 private:
  int64_t step_ = -1;
  std::map<int, at::Tensor> blocks_;
};

}  // namespace weft
