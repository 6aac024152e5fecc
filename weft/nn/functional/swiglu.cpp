#include "weft/nn/functional/swiglu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/graph.h"
#include "weft/nn/kernels/swiglu_kernels.h"
#include "weft/nn/kernels/tensors.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kSwigluGrain = 1 << 14;  // elements that a thread takes at least

/// Calls kernel() for parts of all elements, each on one thread.
void run_swiglu(void (*kernel)(Element, const SwigluRows&), const at::Tensor& x, const SwigluRows& all) {
  if (x.is_meta()) return;
  const auto bytes = static_cast<int64_t>(x.element_size());
  parallel_for(x.numel(), kSwigluGrain, [&](int64_t begin, int64_t end) {
    SwigluRows part = all;
    for (const void** data : {&part.gate, &part.up, &part.dy}) {
      if (*data) *data = static_cast<const char*>(*data) + begin * bytes;
    }
    for (void** data : {&part.y, &part.d_gate, &part.d_up}) {
      if (*data) *data = static_cast<char*>(*data) + begin * bytes;
    }
    part.count = end - begin;
    kernel(element_of(x), part);
  });
}

void* swiglu_memory(const at::Tensor& x) { return !x.defined() || x.is_meta() ? nullptr : x.data_ptr(); }

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
  run_swiglu(swiglu_rows, gate, {.gate = swiglu_memory(gate), .up = swiglu_memory(up), .y = swiglu_memory(y)});
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
             {.gate = swiglu_memory(gate),
              .up = swiglu_memory(up),
              .y = swiglu_memory(into.y),
              .dy = swiglu_memory(dy),
              .d_gate = swiglu_memory(into.gate),
              .d_up = swiglu_memory(into.up)});
}

}  // namespace weft
