#include "weft/nn/functional/swiglu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "weft/nn/graph.h"
#include "weft/nn/kernels/in_parts.h"
#include "weft/nn/kernels/swiglu_kernels.h"
#include "weft/nn/kernels/tensors.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void run_swiglu(void (*kernel)(Element, const SwigluRows&), const at::Tensor& x, const SwigluRows& all) {
  run_in_parts(kernel, x, all, {&SwigluRows::gate, &SwigluRows::up, &SwigluRows::dy},
               {&SwigluRows::y, &SwigluRows::d_gate, &SwigluRows::d_up});
}

void check_inputs(const at::Tensor& gate, const at::Tensor& up) {
  const TensorChecks check("swiglu");
  check.floats("gate", gate);
  check.like("up", up, gate);
}

struct SwigluFunction : torch::autograd::Function<SwigluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return swiglu_value(gate, up);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("swiglu");
    const variable_list saved = context->get_saved_variables();
    const SwigluGradients all{at::empty_like(saved[0]), at::empty_like(saved[1]), {}};
    swiglu_gradients(all, gradients[0], saved[0], saved[1]);
    return {all.gate, all.up};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  check_inputs(gate, up);
  return SwigluFunction::apply(gate, up);
}

at::Tensor swiglu_value(const at::Tensor& gate, const at::Tensor& up) {
  check_inputs(gate, up);
  if (!fits_kernels({gate, up})) return at::silu(gate).mul_(up);
  at::Tensor y = at::empty_like(gate);
  run_swiglu(swiglu_rows, gate, {.gate = elements_of(gate), .up = elements_of(up), .y = elements_in(y)});
  return y;
}

void swiglu_gradients(const SwigluGradients& into, const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  check_inputs(gate, up);
  const TensorChecks check("swiglu's gradient");
  check.like("dy", dy, gate);
  check.place("into.gate", into.gate, gate.sizes(), gate);
  check.place("into.up", into.up, gate.sizes(), gate);
  if (into.y.defined()) check.place("into.y", into.y, gate.sizes(), gate);
  if (!fits_kernels({gate, up, dy, into.gate, into.up, into.y.defined() ? into.y : gate})) {
    const at::Tensor of_gate = at::silu_backward(dy.mul(up), gate), of_up = at::silu(gate).mul_(dy);
    if (into.y.defined()) into.y.copy_(swiglu_value(gate, up));
    into.gate.copy_(of_gate);
    into.up.copy_(of_up);
    return;
  }
  run_swiglu(swiglu_backward_rows, gate,
             {.gate = elements_of(gate),
              .up = elements_of(up),
              .y = elements_in(into.y),
              .dy = elements_of(dy),
              .d_gate = elements_in(into.gate),
              .d_up = elements_in(into.up)});
}

}  // namespace weft
