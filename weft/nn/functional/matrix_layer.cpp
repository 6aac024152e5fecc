#include "weft/nn/functional/matrix_layer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include <vector>

#include "weft/nn/deferred_gradients.h"
#include "weft/nn/functional/column_sums.h"
#include "weft/nn/functional/matmul.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

/// gradient (+)= dy^T x, without a temporary if the types match: dy [n, out], x [n, in].
void add_weight_gradient(Parameter& weight, const at::Tensor& dy, const at::Tensor& x) {
  if (weight.gradient.scalar_type() != dy.scalar_type()) return add_gradient(weight, at::mm(dy.t(), x));
  at::Tensor& gradient = weight.value.mutable_grad();
  if (gradient.defined()) {
    multiply_add(gradient, dy.t(), x);
  } else {
    gradient = weight.gradient;
    multiply(gradient, dy.t(), x);
  }
}

void add_bias_gradient(Parameter& bias, const at::Tensor& dy) {
  at::Tensor& gradient = bias.value.mutable_grad();
  if (gradient.defined()) return add_gradient(bias, column_sums(dy, bias.gradient.scalar_type()));
  column_sums_into(bias.gradient, dy);
  gradient = bias.gradient;
}

void check_linear(const at::Tensor& x, const at::Tensor& weight) {
  const TensorChecks check("linear layer");
  check.floats("x", x, 1);
  check.floating("weight", weight, {TensorChecks::kAny, x.size(-1)}, x);
}

at::Tensor matrix_output(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  if (bias) return multiply_with_bias(x, weight, *bias);
  check_linear(x, weight);
  const at::Tensor x_rows = as_rows(x);
  if (!uses_onednn(x_rows, weight.t())) return at::linear(x, weight);
  const at::Tensor y = at::empty({x_rows.size(0), weight.size(0)}, x.options());
  multiply(y, x_rows, weight.t());
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return y.view(sizes);
}

at::Tensor matrix_input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight) {
  check_linear(x, weight);
  const at::Tensor rows = as_rows(dy), dx = at::empty({rows.size(0), weight.size(1)}, x.options());
  multiply(dx, rows, weight);
  return dx.view(x.sizes());
}

void add_matrix_gradients(Parameter& weight, Parameter* bias, const at::Tensor& dy, const at::Tensor& x) {
  const at::Tensor dy_rows = as_rows(dy);
  add_weight_gradient(weight, dy_rows, as_rows(x));
  if (bias) add_bias_gradient(*bias, dy_rows);
}

void multiply_matrix(const at::Tensor& out, const at::Tensor& rows, const at::Tensor& weight, bool back, bool adds) {
  const at::Tensor by = back ? weight : weight.t();
  adds ? multiply_add(out, rows, by) : multiply(out, rows, by);
}

}  // namespace

const WeightedLayer kMatrixLayer = {.name = "linear layer",
                                    .forward = matrix_output,
                                    .input_gradient = matrix_input_gradient,
                                    .add_gradients = add_matrix_gradients,
                                    .multiply = multiply_matrix};

}  // namespace weft
