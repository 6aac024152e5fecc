// SubmittedStep: a step that a trainer has issued, until its result is read.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/data/dataset.h"

namespace weft {

/// A step whose result has not been read.
struct SubmittedStep {
  int64_t step = 0;
  double rate = 0.0;         ///< learning rate
  std::vector<Batch> taken;  ///< its micro-batches, to repeat it if it fails
};

}  // namespace weft
