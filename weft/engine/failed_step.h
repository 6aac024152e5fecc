// FailedStep: a step whose numbers, read on the host after its backward, are not right.
#pragma once

#include "weft/base/error.h"

namespace weft {

/// Thrown when a loss or a gradient is not finite (in fp16: at the lowest loss scale) or too large; for a step whose numbers
/// are read after it (Engine::submit()), also when an id is out of range or no target counts. Neither the step nor one after it
/// has updated anything then. On all ranks, if the program reduces the losses; Engine::repeat() finds what was wrong, and
/// where.
class FailedStep : public NumericError {
 public:
  using NumericError::NumericError;
};

}  // namespace weft
