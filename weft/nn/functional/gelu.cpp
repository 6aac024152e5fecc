#include "weft/nn/functional/gelu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "weft/nn/device_kernels/layer_kernels.h"
#include "weft/nn/graph.h"
#include "weft/nn/kernel_record.h"
#include "weft/nn/kernels/gelu_kernels.h"
#include "weft/nn/kernels/in_parts.h"
#include "weft/nn/kernels/tensors.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void run_gelu(void (*kernel)(Element, const GeluRows&), const at::Tensor& x, const GeluRows& all) {
  run_in_parts(kernel, x, all, {&GeluRows::x, &GeluRows::dy}, {&GeluRows::y, &GeluRows::dx});
}

/// Skips y if it is undefined.
void backward_by_kernel(const at::Tensor& dx, const at::Tensor& y, const at::Tensor& dy, const at::Tensor& x) {
  const KernelRecord record("weft::activation_backward", {x, dy, dx, y});
  run_gelu(gelu_backward_rows, x, {.x = elements_of(x), .y = elements_in(y), .dy = elements_of(dy), .dx = elements_in(dx)});
}

void check_gradient(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& x) {
  const TensorChecks check("gelu's gradient");
  check.floats("x", x);
  check.place("dx", dx, x.sizes(), x);
  check.like("dy", dy, x);
}

struct GeluFunction : torch::autograd::Function<GeluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return gelu_value(x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("gelu");
    const at::Tensor x = context->get_saved_variables().front(), dx = at::empty_like(x);
    gelu_gradient(dx, gradients.front(), x);
    return {dx};
  }
};

}  // namespace

at::Tensor gelu(const at::Tensor& x) {
  TensorChecks("gelu").floats("x", x);
  return GeluFunction::apply(x);
}

at::Tensor gelu_value(const at::Tensor& x) {
  TensorChecks("gelu").floats("x", x);
  if (fit_device_kernels({x})) return activate_on_device(x);
  if (!fits_kernels({x})) return at::gelu(x, "tanh");
  at::Tensor y = at::empty_like(x);
  const KernelRecord record("weft::activation", {x, y});
  run_gelu(gelu_rows, x, {.x = elements_of(x), .y = elements_in(y)});
  return y;
}

void gelu_gradient(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& x) {
  check_gradient(dx, dy, x);
  if (fit_device_kernels({x, dx})) {
    activation_gradients_on_device({.x = dx}, dy.contiguous(), x);
  } else if (fits_kernels({x, dx, dy})) {
    backward_by_kernel(dx, {}, dy, x);
  } else {
    at::Tensor place = dx;
    at::gelu_backward_out(place, dy, x, "tanh");
  }
}

void gelu_gradient_and_value(const at::Tensor& dx, const at::Tensor& y, const at::Tensor& dy, const at::Tensor& x) {
  check_gradient(dx, dy, x);
  TensorChecks("gelu's gradient").place("y", y, x.sizes(), x);
  if (fit_device_kernels({x, dx, y})) return activation_gradients_on_device({.x = dx, .y = y}, dy.contiguous(), x);
  if (fits_kernels({x, dx, dy, y})) return backward_by_kernel(dx, y, dy, x);
  gelu_gradient(dx, dy, x);
  at::Tensor place = y;
  at::gelu_out(place, x, "tanh");
}

}  // namespace weft
