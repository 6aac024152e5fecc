#include "weft/nn/rotary.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/custom_function.h>

#include "weft/base/error.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// By the angles, or with direction -1 back by them. Memory is laid out as x's.
at::Tensor turn(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, double direction) {
  const int64_t half = x.size(-1) / 2;
  const at::Tensor low = x.narrow(-1, 0, half), high = x.narrow(-1, half, half);
  at::Tensor y = at::empty_like(x), y_low = y.narrow(-1, 0, half), y_high = y.narrow(-1, half, half);
  at::mul_out(y_low, low, cos);
  y_low.addcmul_(high, sin, -direction);
  at::mul_out(y_high, high, cos);
  y_high.addcmul_(low, sin, direction);
  return y;
}

struct RotateFunction : torch::autograd::Function<RotateFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return turn(x, cos, sin, 1.0);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    return {turn(gradients[0], saved[0], saved[1], -1.0), {}, {}};
  }
};

}  // namespace

Rotation rotation_at(const at::Tensor& positions, int64_t head_width, double theta, at::ScalarType dtype) {
  if (head_width % 2 != 0) {
    throw InputError(
        fmt::format("rotary embedding: a head of {} elements cannot be rotated; its width must be even", head_width));
  }
  const at::Tensor exponents = at::arange(0, head_width, 2, positions.options().dtype(at::kFloat)).div_(head_width);
  const at::Tensor angles = positions.to(at::kFloat).unsqueeze(1).mul(at::pow(theta, exponents).reciprocal_());
  return {angles.cos().to(dtype), angles.sin().to(dtype)};
}

Rotation rotation_of_samples(const Rotation& table, const at::Tensor& places) {
  return {at::embedding(table.cos, places).unsqueeze(1), at::embedding(table.sin, places).unsqueeze(1)};
}

at::Tensor rotate(const at::Tensor& x, const Rotation& rotation) {
  return RotateFunction::apply(x, rotation.cos, rotation.sin);
}

}  // namespace weft
