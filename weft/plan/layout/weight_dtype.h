// weight_dtype: LibTorch's type of a precision.
#pragma once

#include <c10/core/ScalarType.h>

#include "weft/plan/layout/layout.h"

namespace weft {

/// Type of weights and activations.
at::ScalarType dtype_of(Precision precision);

}  // namespace weft
