#include "weft/nn/functional/gelu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/graph.h"
#include "weft/nn/kernels/gelu_kernels.h"
#include "weft/nn/kernels/tensors.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kGeluGrain = 1 << 14;  // elements that a thread takes at least

/// Calls of(part) for parts of all elements, each on one thread.
template <class Of>
void in_parts(const at::Tensor& x, const GeluRows& all, const Of& of) {
  if (x.is_meta()) return;
  const auto bytes = static_cast<int64_t>(x.element_size());
  parallel_for(x.numel(), kGeluGrain, [&](int64_t begin, int64_t end) {
    GeluRows part{.count = end - begin};
    if (all.x) part.x = static_cast<const char*>(all.x) + begin * bytes;
    if (all.y) part.y = static_cast<char*>(all.y) + begin * bytes;
    if (all.dy) part.dy = static_cast<const char*>(all.dy) + begin * bytes;
    if (all.dx) part.dx = static_cast<char*>(all.dx) + begin * bytes;
    of(part);
  });
}

void* data_of(const at::Tensor& x) { return x.is_meta() ? nullptr : x.data_ptr(); }

/// Without y where it is undefined.
void backward_by_kernel(const at::Tensor& dx, const at::Tensor& y, const at::Tensor& dy, const at::Tensor& x) {
  const GeluRows rows{.x = data_of(x), .y = y.defined() ? data_of(y) : nullptr, .dy = data_of(dy), .dx = data_of(dx)};
  in_parts(x, rows, [&](const GeluRows& part) { gelu_backward_rows(element_of(x), part); });
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
  if (!fits_kernels({x})) return at::gelu(x, "tanh");
  at::Tensor y = at::empty_like(x);
  in_parts(x, {.x = data_of(x), .y = data_of(y)}, [&](const GeluRows& part) { gelu_rows(element_of(x), part); });
  return y;
}

void gelu_gradient(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& x) {
  check_gradient(dx, dy, x);
  if (fits_kernels({x, dx, dy})) {
    backward_by_kernel(dx, {}, dy, x);
  } else {
    dx.copy_(at::gelu_backward(dy, x, "tanh"));
  }
}

void gelu_gradient_and_value(const at::Tensor& dx, const at::Tensor& y, const at::Tensor& dy, const at::Tensor& x) {
  check_gradient(dx, dy, x);
  TensorChecks("gelu's gradient").place("y", y, x.sizes(), x);
  if (fits_kernels({x, dx, dy, y})) return backward_by_kernel(dx, y, dy, x);
  gelu_gradient(dx, dy, x);
  y.copy_(gelu_value(x));
}

}  // namespace weft
