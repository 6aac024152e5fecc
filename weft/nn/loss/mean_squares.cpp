#include "weft/nn/loss/mean_squares.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mse_loss.h>

#include "weft/base/error.h"
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

/// LibTorch divides a sum with one result between threads, but not the rows of one with several.
at::Tensor sum_of_rows(const at::Tensor& elements) {
  constexpr int64_t kRow = 4096;  // less than LibTorch gives a thread
  at::Tensor rest = elements.reshape({-1});
  while (rest.numel() > kRow) {
    const int64_t rows = rest.numel() / kRow, whole = rows * kRow, more = rest.numel() - whole;
    at::Tensor sums = rest.narrow(0, 0, whole).view({rows, kRow}).sum(1);
    if (more > 0) sums = at::cat({sums, rest.narrow(0, whole, more).sum().view({1})});
    rest = sums;
  }
  return rest.sum();
}

}  // namespace weft
