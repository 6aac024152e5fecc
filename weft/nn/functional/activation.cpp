#include "weft/nn/functional/activation.h"

#include <ATen/ops/empty_like.h>
#include <fmt/core.h>

#include <utility>

#include "weft/base/error.h"
#include "weft/nn/functional/gelu.h"
#include "weft/nn/functional/swiglu.h"

namespace weft {

namespace {

/// Returns the inputs; throws InputError unless there are `count`.
const Tensors& counted(const Tensors& inputs, size_t count) {
  if (inputs.size() == count) return inputs;
  throw InputError(fmt::format("activation: {} inputs; it takes {}", inputs.size(), count));
}

/// Memory for a tensor like x: x itself, or new.
at::Tensor place_like(const at::Tensor& x, bool overwrites) { return overwrites ? x : at::empty_like(x); }

Activation::Backward gelu_backward_of(const Tensors& inputs, const at::Tensor& gradient, bool overwrites) {
  at::Tensor value = place_like(counted(inputs, 1)[0], overwrites);
  gelu_gradient_and_value(gradient, value, gradient, inputs.front());
  return {{gradient}, std::move(value)};
}

Activation::Backward swiglu_backward_of(const Tensors& inputs, const at::Tensor& gradient, bool overwrites) {
  SwigluGradients all{place_like(counted(inputs, 2)[0], overwrites), gradient, place_like(inputs[1], overwrites)};
  swiglu_gradients(all, gradient, inputs[0], inputs[1]);
  return {{std::move(all.gate), std::move(all.up)}, std::move(all.y)};
}

at::Tensor swiglu_of(const Tensors& inputs) { return swiglu(counted(inputs, 2)[0], inputs[1]); }
at::Tensor swiglu_value_of(const Tensors& inputs) { return swiglu_value(counted(inputs, 2)[0], inputs[1]); }

}  // namespace

const Activation kGelu = {.value = [](const Tensors& inputs) { return gelu_value(counted(inputs, 1)[0]); },
                          .backward = gelu_backward_of,
                          .differentiable = [](const Tensors& inputs) { return weft::gelu(counted(inputs, 1)[0]); }};

const Activation kSwiglu = {.value = swiglu_value_of, .backward = swiglu_backward_of, .differentiable = swiglu_of};

}  // namespace weft
