#include "weft/nn/functional/swiglu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "weft/nn/device_kernels/layer_kernels.h"
#include "weft/nn/graph.h"
#include "weft/nn/kernel_record.h"
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

/// x, or a copy where one of `places`, which are written before x is last read, has its memory.
at::Tensor kept_from(const std::vector<at::Tensor>& places, const at::Tensor& x) {
  const auto overwrites = [&x](const at::Tensor& place) { return place.defined() && place.is_alias_of(x); };
  return std::any_of(places.begin(), places.end(), overwrites) ? x.clone() : x;
}

/// In an order in which layers' places, which are their inputs' own memory, need no copies.
void by_operators(const SwigluGradients& into, const at::Tensor& given_dy, const at::Tensor& given_gate, const at::Tensor& up) {
  const at::Tensor dy = kept_from({into.y}, given_dy), gate = kept_from({into.y, into.up}, given_gate);
  const at::Tensor weighted = dy.mul(up), open = at::silu(gate);
  at::Tensor of_y = into.y, of_up = into.up, of_gate = into.gate;
  if (of_y.defined()) at::mul_out(of_y, open, up);
  at::mul_out(of_up, open, dy);
  at::silu_backward_out(of_gate, weighted, gate);
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
  if (fit_device_kernels({gate, up})) return activate_on_device(gate, up);
  if (!fits_kernels({gate, up})) return at::silu(gate).mul_(up);
  at::Tensor y = at::empty_like(gate);
  const KernelRecord record("weft::activation", {gate, up, y});
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
  if (fit_device_kernels({gate, up, into.gate, into.up, into.y.defined() ? into.y : gate})) {
    return activation_gradients_on_device({.x = into.gate, .up = into.up, .y = into.y}, dy.contiguous(), gate, up);
  }
  if (!fits_kernels({gate, up, dy, into.gate, into.up, into.y.defined() ? into.y : gate})) {
    return by_operators(into, dy, gate, up);
  }
  const KernelRecord record("weft::activation_backward", {gate, up, dy, into.gate, into.up, into.y});
  run_swiglu(swiglu_backward_rows, gate,
             {.gate = elements_of(gate),
              .up = elements_of(up),
              .y = elements_in(into.y),
              .dy = elements_of(dy),
              .d_gate = elements_in(into.gate),
              .d_up = elements_in(into.up)});
}

}  // namespace weft
