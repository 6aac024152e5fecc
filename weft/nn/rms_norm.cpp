#include "weft/nn/rms_norm.h"

#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>

#include "weft/nn/graph.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Without a copy where they are alike.
at::Tensor normalised(const at::Tensor& wide_x, const at::Tensor& scale, const at::Tensor& like) {
  return wide_x.mul(scale).to(like.scalar_type());
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, double eps) {
    const at::Tensor wide = widen({x})[0];
    const at::Tensor scale = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();  // [..., 1]
    context->save_for_backward({x, weight, scale});
    at::Tensor y = normalised(wide, scale, x);
    return y.scalar_type() == weight.scalar_type() ? y.mul_(weight) : y.mul(weight);
  }

  /// With n = scale x and g = dy weight: dx = scale (g - n mean(g n)).
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &scale = saved[2];
    const at::Tensor dy = widen(gradients)[0], n = widen({x})[0].mul(scale);
    at::Tensor dx, d_weight;
    at::Tensor dy_n = dy.mul(n);
    if (context->needs_input_grad(1)) d_weight = dy_n.flatten(0, -2).sum(0).to(weight.scalar_type());
    if (context->needs_input_grad(0)) {
      const at::Tensor wide_weight = widen({weight})[0];
      const at::Tensor mean = dy_n.mul_(wide_weight).mean(-1, /*keepdim=*/true);
      dx = dy.mul(wide_weight).addcmul_(n, mean, -1.0).mul_(scale).to(x.scalar_type());
    }
    return {dx, d_weight, {}};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return RmsNormFunction::apply(x, weight, eps);
}

}  // namespace weft
