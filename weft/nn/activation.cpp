#include "weft/nn/activation.h"

#include <utility>

#include "weft/nn/gelu.h"

namespace weft {

namespace {

Activation::Backward gelu_backward_of(const Tensors& inputs, const at::Tensor& gradient) {
  at::Tensor value = gelu_gradient_and_value(gradient, gradient, inputs.front());
  return {{gradient}, std::move(value)};
}

}  // namespace

const Activation kGelu = {.value = [](const Tensors& inputs) { return gelu_value(inputs.front()); },
                          .backward = gelu_backward_of,
                          .differentiable = [](const Tensors& inputs) { return weft::gelu(inputs.front()); }};

}  // namespace weft
