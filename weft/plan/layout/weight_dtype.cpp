#include "weft/plan/layout/weight_dtype.h"

namespace weft {

at::ScalarType dtype_of(Precision precision) {
  if (precision == Precision::bf16) return at::kBFloat16;
  return precision == Precision::fp16 ? at::kHalf : at::kFloat;
}

}  // namespace weft
