#include "weft/nn/activation.h"

#include <ATen/ops/empty_like.h>

#include <utility>

#include "weft/nn/gelu.h"
#include "weft/nn/swiglu.h"

namespace weft {

namespace {

/// A place for what is like x: its own memory, or new.
at::Tensor place_like(const at::Tensor& x, bool overwrites) { return overwrites ? x : at::empty_like(x); }

Activation::Backward gelu_backward_of(const Tensors& inputs, const at::Tensor& gradient, bool overwrites) {
  at::Tensor value = place_like(inputs.front(), overwrites);
  gelu_gradient_and_value(gradient, value, gradient, inputs.front());
  return {{gradient}, std::move(value)};
}

Activation::Backward swiglu_backward_of(const Tensors& inputs, const at::Tensor& gradient, bool overwrites) {
  SwigluGradients all{place_like(inputs[0], overwrites), gradient, place_like(inputs[1], overwrites)};
  swiglu_gradients(all, gradient, inputs[0], inputs[1]);
  return {{std::move(all.gate), std::move(all.up)}, std::move(all.y)};
}

}  // namespace

const Activation kGelu = {.value = [](const Tensors& inputs) { return gelu_value(inputs.front()); },
                          .backward = gelu_backward_of,
                          .differentiable = [](const Tensors& inputs) { return weft::gelu(inputs.front()); }};

const Activation kSwiglu = {.value = [](const Tensors& inputs) { return swiglu_value(inputs[0], inputs[1]); },
                            .backward = swiglu_backward_of,
                            .differentiable = [](const Tensors& inputs) { return swiglu(inputs[0], inputs[1]); }};

}  // namespace weft
