#include "weft/nn/attention/within_documents.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <vector>

#include "weft/base/error.h"
#include "weft/nn/attention/fused.h"
#include "weft/nn/attention/heads.h"
#include "weft/nn/attention/packed_kernel.h"
#include "weft/nn/attention/partial.h"
#include "weft/nn/graph.h"
#include "weft/nn/kernels/kernel_table.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct HeldRuns : torch::CustomClassHolder {
  explicit HeldRuns(DocumentRuns runs) : runs(std::move(runs)) {}
  DocumentRuns runs;
};

/// Throws InputError unless the runs cover all tokens of `samples` samples of `tokens`, in order.
void check_runs(const DocumentRuns& runs, int64_t samples, int64_t tokens) {
  int64_t sample = 0, token = 0;
  for (const DocumentRun& run : runs) {
    const bool follows = run.sample == sample && run.begin == token && run.samples >= 1 && run.samples <= samples - sample &&
                         run.tokens >= 1 && run.tokens <= tokens - token && (run.samples == 1 || run.tokens == tokens);
    if (!follows) {
      throw InputError(
          fmt::format("attention within documents: a run of {} x {} tokens at sample {}, token {}, but sample {}, "
                      "token {} of {} x {} comes next; runs must cover all tokens, in order",
                      run.samples, run.tokens, run.sample, run.begin, sample, token, samples, tokens));
    }
    token += run.tokens;
    if (token < tokens) continue;
    token = 0;
    sample += run.samples;
  }
  if (sample == samples || tokens == 0) return;
  throw InputError(
      fmt::format("attention within documents: the runs end at sample {}, token {} of {} x {}; they must cover all tokens",
                  sample, token, samples, tokens));
}

/// The document's part of x [batch, heads, tokens, ...]: a view.
at::Tensor part_of(const at::Tensor& x, const DocumentRun& run) {
  return x.narrow(0, run.sample, run.samples).narrow(2, run.begin, run.tokens);
}

/// The output [batch, tokens, width] and the log-sums [batch, heads, tokens].
AttentionPiece attend_within(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const DocumentRuns& runs) {
  const at::TensorOptions wide = q.options().dtype(at::toOpMathType(q.scalar_type()));
  const AttentionPiece all{at::empty({q.size(0), q.size(2), q.size(1) * q.size(3)}, q.options()),
                           at::empty({q.size(0), q.size(1), q.size(2)}, wide)};
  const at::Tensor out = as_heads(all.out, q.size(1));
  for (const DocumentRun& run : runs) {
    const AttentionPiece one =
        attend(part_of(q, run), part_of(k, run), part_of(v, run), AttentionMask::causal, AttentionKernel::flash);
    part_of(out, run).copy_(one.out);
    part_of(all.logsumexp, run).copy_(one.logsumexp);
  }
  return all;
}

/// Fills the gradients of q, k and v.
void attend_backward_within(const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionPiece& all, const DocumentRuns& runs, const AttentionGradients& into) {
  const int64_t heads = q.size(1);
  const at::Tensor dout = as_heads(gradient.contiguous(), heads), out = as_heads(all.out, heads);
  for (const DocumentRun& run : runs) {
    const AttentionPiece one{part_of(out, run), part_of(all.logsumexp, run).contiguous()};
    attend_backward_into({part_of(into.q, run), part_of(into.k, run), part_of(into.v, run)}, part_of(dout, run),
                         part_of(q, run), part_of(k, run), part_of(v, run), one, AttentionMask::causal, AttentionKernel::flash);
  }
}

const DocumentRuns& runs_of(AutogradContext* ctx) {
  return c10::static_intrusive_pointer_cast<HeldRuns>(ctx->saved_data["runs"].toCapsule())->runs;  // kept alive by ctx
}

struct WithinDocuments : torch::autograd::Function<WithinDocuments> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv, int64_t heads,
                            const c10::intrusive_ptr<HeldRuns>& held) {
    const AttentionPiece all =
        attend_within(split_heads(qkv, 0, heads), split_heads(qkv, 1, heads), split_heads(qkv, 2, heads), held->runs);
    ctx->saved_data["heads"] = heads;
    ctx->saved_data["runs"] = c10::IValue::make_capsule(held);
    ctx->save_for_backward({qkv, all.out, all.logsumexp});
    return all.out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    refuse_second_order("attention within documents");
    const variable_list saved = ctx->get_saved_variables();
    const int64_t heads = ctx->saved_data["heads"].toInt();
    const auto third = [heads](const at::Tensor& x, int64_t number) { return split_heads(x, number, heads); };
    const at::Tensor &qkv = saved[0], gradient = at::empty_like(qkv, at::MemoryFormat::Contiguous);
    attend_backward_within(grads[0], third(qkv, 0), third(qkv, 1), third(qkv, 2), {saved[1], saved[2]}, runs_of(ctx),
                           {third(gradient, 0), third(gradient, 1), third(gradient, 2)});
    return {gradient, {}, {}};
  }
};

struct GroupedWithinDocuments : torch::autograd::Function<GroupedWithinDocuments> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const c10::intrusive_ptr<HeldRuns>& held) {
    const AttentionPiece all = attend_within(q, k, v, held->runs);
    ctx->saved_data["runs"] = c10::IValue::make_capsule(held);
    ctx->save_for_backward({q, k, v, all.out, all.logsumexp});
    return all.out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    refuse_second_order("attention within documents");
    const variable_list saved = ctx->get_saved_variables();
    const AttentionGradients gradients{at::empty_like(saved[0]), at::empty_like(saved[1]), at::empty_like(saved[2])};
    attend_backward_within(grads[0], saved[0], saved[1], saved[2], {saved[3], saved[4]}, runs_of(ctx), gradients);
    return {gradients.q, gradients.k, gradients.v, {}};
  }
};

}  // namespace

at::Tensor document_attention(const at::Tensor& qkv, int64_t heads, const DocumentRuns& runs) {
  check_heads(qkv, heads);
  check_runs(runs, qkv.size(0), qkv.size(1));
  if (has_weft_kernel(ModelOperation::document_attention, qkv.device()))
    return WithinDocuments::apply(qkv, heads, c10::make_intrusive<HeldRuns>(runs));
  const std::vector<at::Tensor> thirds = qkv.chunk(3, 2);  // in one operation, as in attention()
  return document_attention_by_graph(as_heads(thirds[0], heads), as_heads(thirds[1], heads), as_heads(thirds[2], heads), runs);
}

at::Tensor document_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const DocumentRuns& runs) {
  check_grouped(q, k, v);
  check_runs(runs, q.size(0), q.size(2));
  if (has_weft_kernel(ModelOperation::document_attention, q.device()))
    return GroupedWithinDocuments::apply(q, k, v, c10::make_intrusive<HeldRuns>(runs));
  return document_attention_by_graph(q, k, v, runs);
}

at::Tensor document_attention_by_graph(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const DocumentRuns& runs) {
  check_grouped(q, k, v);
  check_runs(runs, q.size(0), q.size(2));
  if (runs.empty()) return merge_heads(q);  // no tokens
  if (has_packed_kernel(q, runs)) return attend_packed(q, k, v, runs);
  std::vector<at::Tensor> samples, documents;
  samples.reserve(runs.size());
  documents.reserve(runs.size());
  for (const DocumentRun& run : runs) {
    documents.push_back(fused_attention(part_of(q, run), part_of(k, run), part_of(v, run)));
    if (run.begin + run.tokens < q.size(2)) continue;
    samples.push_back(at::cat(documents, 2));
    documents.clear();
  }
  return merge_heads(at::cat(samples, 0));
}

}  // namespace weft
