#include "weft/nn/attention/attention.h"

#include <ATen/ops/empty_like.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/nn/attention/fused.h"
#include "weft/nn/attention/heads.h"
#include "weft/nn/attention/over_ranks.h"
#include "weft/nn/attention/partial.h"
#include "weft/nn/attention/within_documents.h"
#include "weft/nn/graph.h"
#include "weft/nn/kernels/kernel_table.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The output [batch, tokens, width] and the log-sums of the CPU's kernel.
std::pair<at::Tensor, at::Tensor> flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  AttentionPiece all = attend(q, k, v, AttentionMask::causal, AttentionKernel::flash);
  return {merge_heads(all.out), std::move(all.logsumexp)};
}

/// The gradients of q, k and v, given that of the output.
void flash_backward(const AttentionGradients& into, const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, const at::Tensor& merged, const at::Tensor& logsumexp) {
  const int64_t heads = q.size(1);
  attend_backward_into(into, as_heads(gradient.contiguous(), heads), q, k, v, {as_heads(merged, heads), logsumexp},
                       AttentionMask::causal, AttentionKernel::flash);
}

struct FlashAttention : torch::autograd::Function<FlashAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv, int64_t heads) {
    const auto [merged, logsumexp] = flash(split_heads(qkv, 0, heads), split_heads(qkv, 1, heads), split_heads(qkv, 2, heads));
    ctx->saved_data["heads"] = heads;
    ctx->save_for_backward({qkv, merged, logsumexp});
    return merged;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    refuse_second_order("attention");
    const variable_list saved = ctx->get_saved_variables();
    const int64_t heads = ctx->saved_data["heads"].toInt();
    const auto third = [heads](const at::Tensor& x, int64_t number) { return split_heads(x, number, heads); };
    const at::Tensor &qkv = saved[0], gradient = at::empty_like(qkv, at::MemoryFormat::Contiguous);
    flash_backward({third(gradient, 0), third(gradient, 1), third(gradient, 2)}, grads[0], third(qkv, 0), third(qkv, 1),
                   third(qkv, 2), saved[1], saved[2]);
    return {gradient, {}};
  }
};

struct GroupedFlashAttention : torch::autograd::Function<GroupedFlashAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const auto [merged, logsumexp] = flash(q, k, v);
    ctx->save_for_backward({q, k, v, merged, logsumexp});
    return merged;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    refuse_second_order("attention");
    const variable_list saved = ctx->get_saved_variables();
    const AttentionGradients gradients{at::empty_like(saved[0]), at::empty_like(saved[1]), at::empty_like(saved[2])};
    flash_backward(gradients, grads[0], saved[0], saved[1], saved[2], saved[3], saved[4]);
    return {gradients.q, gradients.k, gradients.v};
  }
};

void check_alone(const Context& context, const std::string& what, const DocumentRuns& runs) {
  if (runs.empty() || context.cp.size() == 1) return;
  throw InputError(fmt::format("attention of {}: packed documents cannot be combined with sequences shared by ranks", what));
}

}  // namespace

at::Tensor attention(const at::Tensor& qkv, int64_t heads) {
  check_heads(qkv, heads);
  if (has_weft_kernel(ModelOperation::attention, qkv.device())) return FlashAttention::apply(qkv, heads);
  // In one operation, whose backward joins the gradients: with one for each third it would add three tensors of qkv's size.
  const std::vector<at::Tensor> thirds = qkv.chunk(3, 2);
  return merge_heads(fused_attention(as_heads(thirds[0], heads), as_heads(thirds[1], heads), as_heads(thirds[2], heads)));
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  check_grouped(q, k, v);
  if (has_weft_kernel(ModelOperation::attention, q.device())) return GroupedFlashAttention::apply(q, k, v);
  return merge_heads(fused_attention(q, k, v));
}

at::Tensor attention(const at::Tensor& qkv, int64_t heads, const Context& context, const std::string& what,
                     const DocumentRuns& runs) {
  check_alone(context, what, runs);
  if (!runs.empty()) return document_attention(qkv, heads, runs);
  if (context.cp.size() == 1) return attention(qkv, heads);
  check_heads(qkv, heads);
  return attention(split_heads(qkv, 0, heads), split_heads(qkv, 1, heads), split_heads(qkv, 2, heads), context, what);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Context& context,
                     const std::string& what, const DocumentRuns& runs) {
  check_alone(context, what, runs);
  if (!runs.empty()) return document_attention(q, k, v, runs);
  if (context.cp.size() == 1) return attention(q, k, v);
  return merge_heads(context_attention(q, k, v, context.cp, context.layout.attention_over, "attention of " + what));
}

}  // namespace weft
