#include "weft/nn/attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/custom_function.h>

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// One third of qkv as [batch, heads, tokens, head width]: a view.
at::Tensor split_heads(const at::Tensor& qkv, int64_t third, int64_t heads) {
  const int64_t width = qkv.size(2) / 3;
  return qkv.narrow(2, third * width, width).view({qkv.size(0), qkv.size(1), heads, width / heads}).transpose(1, 2);
}

/// [batch, heads, tokens, head width] -> [batch, tokens, width].
at::Tensor merge_heads(const at::Tensor& x) { return x.transpose(1, 2).flatten(2); }

struct FlashAttention : torch::autograd::Function<FlashAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv, int64_t heads) {
    const at::Tensor q = split_heads(qkv, 0, heads);
    auto [out, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(q, split_heads(qkv, 1, heads),
                                                                            split_heads(qkv, 2, heads), 0.0, /*causal=*/true);
    ctx->saved_data["heads"] = heads;
    at::Tensor merged = merge_heads(out);
    ctx->save_for_backward({qkv, merged, logsumexp});
    return merged;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& qkv = saved[0];
    const int64_t heads = ctx->saved_data["heads"].toInt();
    const auto as_heads = [&](const at::Tensor& x) {
      return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
    };
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        as_heads(grads[0].contiguous()), split_heads(qkv, 0, heads), split_heads(qkv, 1, heads), split_heads(qkv, 2, heads),
        as_heads(saved[1]), saved[2], 0.0, /*causal=*/true);
    return {at::cat({merge_heads(dq), merge_heads(dk), merge_heads(dv)}, 2), {}};
  }
};

}  // namespace

at::Tensor attention(const at::Tensor& qkv, int64_t heads) {
  if (qkv.is_cpu() || qkv.is_meta()) return FlashAttention::apply(qkv, heads);
  return merge_heads(at::scaled_dot_product_attention(split_heads(qkv, 0, heads), split_heads(qkv, 1, heads),
                                                      split_heads(qkv, 2, heads), {}, 0.0, /*is_causal=*/true));
}

}  // namespace weft
