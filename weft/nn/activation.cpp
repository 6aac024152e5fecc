#include "weft/nn/activation.h"

#include <utility>

#include "weft/nn/gelu.h"
#include "weft/nn/swiglu.h"

namespace weft {

namespace {

Activation::Backward gelu_backward_of(const Tensors& inputs, const at::Tensor& gradient) {
  at::Tensor value = gelu_gradient_and_value(gradient, gradient, inputs.front());
  return {{gradient}, std::move(value)};
}

Activation::Backward swiglu_backward_of(const Tensors& inputs, const at::Tensor& gradient) {
  SwigluGradients all = swiglu_gradients(gradient, inputs[0], inputs[1], true);
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
