#include "weft/nn/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include "weft/nn/split_backward.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Parameter* as_parameter(AutogradContext* ctx, const char* key) {
  return reinterpret_cast<Parameter*>(ctx->saved_data[key].toInt());  // NOLINT: the block outlives its graph
}

/// gradient (+)= dy^T x, without a temporary where the types are the same: dy [n, out], x [n, in].
void add_weight_gradient(Parameter& weight, const at::Tensor& dy, const at::Tensor& x) {
  if (weight.gradient.scalar_type() != dy.scalar_type()) return add_gradient(weight, at::mm(dy.t(), x));
  at::Tensor& gradient = weight.value.mutable_grad();
  if (gradient.defined()) {
    at::addmm_out(gradient, gradient, dy.t(), x);
  } else {
    gradient = weight.gradient;
    at::mm_out(gradient, dy.t(), x);
  }
}

void add_bias_gradient(Parameter& bias, const at::Tensor& dy) {
  if (bias.gradient.scalar_type() != dy.scalar_type()) return add_gradient(bias, dy.sum(0));
  at::Tensor& gradient = bias.value.mutable_grad();
  if (gradient.defined()) {
    gradient.add_(dy.sum(0));
  } else {
    gradient = bias.gradient;
    at::sum_out(gradient, dy, at::IntArrayRef{0});
  }
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, int64_t weight_parameter, int64_t bias_parameter) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["weight"] = weight_parameter;
    ctx->saved_data["bias"] = bias_parameter;
    return at::linear(x, weight, bias);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor dy = grads[0].reshape({-1, weight.size(0)});
    at::Tensor dx;
    if (ctx->needs_input_grad(0)) dx = at::mm(dy, weight).view(x.sizes());
    Parameter* kept_weight = as_parameter(ctx, "weight");
    Parameter* kept_bias = as_parameter(ctx, "bias");
    const auto add = [kept_weight, kept_bias, dy, flat = x.reshape({-1, weight.size(1)})] {
      add_weight_gradient(*kept_weight, dy, flat);
      if (kept_bias) add_bias_gradient(*kept_bias, dy);
    };
    kept_weight->deferred ? kept_weight->deferred->add(add) : add();
    return {dx, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, Parameter& weight, Parameter* bias) {
  const std::optional<at::Tensor> bias_value = bias ? std::optional(bias->value) : std::nullopt;
  if (!weight.gradient.defined()) return at::linear(x, weight.value, bias_value);
  return LinearFunction::apply(x, weight.value, bias_value, reinterpret_cast<int64_t>(&weight),
                               reinterpret_cast<int64_t>(bias));
}

}  // namespace weft
