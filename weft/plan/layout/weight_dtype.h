// weight_dtype: the type of a precision, as LibTorch has it.
#pragma once

#include <c10/core/ScalarType.h>

#include "weft/plan/layout/layout.h"

namespace weft {

/// The type of weights and activations.
at::ScalarType dtype_of(Precision precision);

}  // namespace weft
