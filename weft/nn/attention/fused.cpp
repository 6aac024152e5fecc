#include "weft/nn/attention/fused.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/custom_function.h>

#include "weft/nn/attention/fused_pieces.h"
#include "weft/nn/attention/heads.h"
#include "weft/nn/graph.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The kernels' tensors, without their values.
struct FusedShapes : torch::autograd::Function<FusedShapes> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const AttentionPiece made = attend_fused(q, k, v, AttentionMask::causal);
    const at::TensorOptions number = q.options().dtype(at::kLong);
    context->save_for_backward({q, k, v, made.out, made.logsumexp, at::empty({}, number), at::empty({}, number)});
    return made.out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("attention");
    const variable_list saved = context->get_saved_variables();
    const AttentionGradients made =
        attend_backward_fused(gradients[0], saved[0], saved[1], saved[2], {saved[3], saved[4]}, AttentionMask::causal);
    return {made.q, made.k, made.v};
  }
};

at::Tensor padded(const at::Tensor& x, int64_t width) {
  return x.size(3) == width ? x : at::constant_pad_nd(x, {0, width - x.size(3)});
}

}  // namespace

at::Tensor fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const int64_t times = q.size(1) / k.size(1), repeats = groups_heads(q) ? 1 : times;
  const at::Tensor keys = repeat_heads(k, repeats), values = repeat_heads(v, repeats);
  if (!q.is_meta() || !has_fused_kernel(q))
    return at::scaled_dot_product_attention(q, keys, values, {}, 0.0, /*is_causal=*/true, {}, /*enable_gqa=*/times != repeats);
  const int64_t width = fused_head_width(q);
  const at::Tensor out = FusedShapes::apply(padded(q, width), padded(keys, width), padded(values, width));
  return width == q.size(3) ? out : out.narrow(3, 0, q.size(3));
}

}  // namespace weft
