#include "weft/nn/loss/mean_squares.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/mse_loss.h>

#include "weft/base/error.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

LossValue mean_squares(const Tensors& outputs, const at::Tensor& target) {
  const TensorChecks check("loss");
  if (outputs.empty()) throw InputError("loss: the last block has no outputs");
  const at::Tensor& x = outputs.front();
  check.floats("outputs", x);
  check.like("target", target, x);
  return {sum_of_rows(at::mse_loss(x, target, at::Reduction::None)), x.numel()};
}

}  // namespace weft
