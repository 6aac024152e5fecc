#include "weft/nn/convolution.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "weft/nn/split_backward.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Parameter* as_parameter(AutogradContext* ctx, const char* key) {
  return reinterpret_cast<Parameter*>(ctx->saved_data[key].toInt());  // NOLINT: the block outlives its graph
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  return at::conv2d(x, weight, bias, /*stride=*/1, weight.size(2) / 2);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward_parts(const at::Tensor& dy, const at::Tensor& x,
                                                              const at::Tensor& weight, std::array<bool, 3> wanted) {
  const int64_t padding = weight.size(2) / 2;
  const std::vector<int64_t> bias_sizes = {weight.size(0)};
  return at::convolution_backward(dy, x, weight, bias_sizes, /*stride=*/{1, 1}, {padding, padding}, /*dilation=*/{1, 1},
                                  /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1, wanted);
}

struct ConvolutionFunction : torch::autograd::Function<ConvolutionFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, int64_t weight_parameter, int64_t bias_parameter) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["weight"] = weight_parameter;
    ctx->saved_data["bias"] = bias_parameter;
    return convolve(x, weight, bias);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& dy = grads[0];
    at::Tensor dx;
    if (ctx->needs_input_grad(0)) dx = std::get<0>(backward_parts(dy, saved[0], saved[1], {true, false, false}));
    Parameter* weight = as_parameter(ctx, "weight");
    Parameter* bias = as_parameter(ctx, "bias");
    const auto add = [weight, bias, dy, x = saved[0], value = saved[1]] {
      const auto [none, weight_gradient, bias_gradient] = backward_parts(dy, x, value, {false, true, bias != nullptr});
      add_gradient(*weight, weight_gradient);
      if (bias) add_gradient(*bias, bias_gradient);
    };
    weight->deferred ? weight->deferred->add(add) : add();
    return {dx, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor convolution(const at::Tensor& x, Parameter& weight, Parameter* bias) {
  const std::optional<at::Tensor> bias_value = bias ? std::optional(bias->value) : std::nullopt;
  if (!weight.gradient.defined()) return convolve(x, weight.value, bias_value);
  return ConvolutionFunction::apply(x, weight.value, bias_value, reinterpret_cast<int64_t>(&weight),
                                    reinterpret_cast<int64_t>(bias));
}

}  // namespace weft
