// Distance of a result from an exact one, as one number.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft::test {

/// The largest difference, relative to the largest value.
inline double relative_error(const at::Tensor& x, const at::Tensor& exact) {
  const at::Tensor wide = exact.to(at::kDouble);
  return x.to(at::kDouble).sub(wide).abs().max().item().toDouble() / wide.abs().max().item().toDouble();
}

}  // namespace weft::test
