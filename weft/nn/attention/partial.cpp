#include "weft/nn/attention/partial.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

#include "weft/nn/attention/fused_pieces.h"
#include "weft/nn/attention/heads.h"
#include "weft/nn/attention/tiled.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

constexpr double kNoKeys = -std::numeric_limits<double>::infinity();  // log-sum of no scores, or of scores that are all -inf

at::ScalarType wide_type(const at::Tensor& q) { return q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

/// Log-sums to subtract from scores: where all of them are -inf, their exponentials become 0, as in LibTorch's softmax.
at::Tensor subtrahend(const at::Tensor& logsumexp) { return logsumexp.masked_fill(logsumexp.eq(kNoKeys), 0); }

double scale_of(const at::Tensor& q) { return 1.0 / std::sqrt(static_cast<double>(q.size(3))); }

/// Query heads that read one kv head, as further rows of that head: [batch, kv heads, heads / kv heads x queries, last].
at::Tensor rows_of_kv_heads(const at::Tensor& x, const at::Tensor& k) {
  return x.unflatten(1, {k.size(1), x.size(1) / k.size(1)}).flatten(2, 3);
}

/// Inverse of rows_of_kv_heads(), to `heads` heads.
at::Tensor heads_of_rows(const at::Tensor& rows, int64_t heads) {
  return rows.unflatten(2, {heads / rows.size(1), -1}).flatten(1, 2);
}

/// Scaled scores in at least float32, rows as above; minus infinity where a query does not see a key.
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, AttentionMask mask) {
  at::Tensor scores = at::matmul(rows_of_kv_heads(q, k), k.transpose(2, 3)).to(wide_type(q)).mul_(scale_of(q));
  if (mask == AttentionMask::causal) {
    const at::Tensor later = at::ones({q.size(2), k.size(2)}, scores.options().dtype(at::kBool)).triu(1);
    scores.unflatten(2, {-1, q.size(2)}).masked_fill_(later, kNoKeys);
  }
  return scores;
}

AttentionPiece attend_by_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask) {
  const at::Tensor scores = scores_of(q, k, mask);
  const at::Tensor logsumexp = at::logsumexp(scores, {-1}, /*keepdim=*/true);
  const at::Tensor weights = scores.sub(subtrahend(logsumexp)).exp_().to(v.scalar_type());
  return {heads_of_rows(at::matmul(weights, v), q.size(1)), heads_of_rows(logsumexp, q.size(1)).squeeze(3)};
}

AttentionGradients attend_backward_by_formula(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                                              const at::Tensor& v, const AttentionPiece& whole, AttentionMask mask) {
  const at::Tensor dout_rows = rows_of_kv_heads(dout, k);
  const at::Tensor logsumexp = rows_of_kv_heads(whole.logsumexp.unsqueeze(3), k);
  const at::Tensor weights = scores_of(q, k, mask).sub_(subtrahend(logsumexp)).exp_();
  const at::Tensor dv = at::matmul(weights.to(v.scalar_type()).transpose(2, 3), dout_rows);
  // Softmax backward: subtracts from each row the sum of its weights times their gradients, over all keys.
  const at::Tensor taken = rows_of_kv_heads(whole.out.to(weights.scalar_type()).mul(dout).sum(-1, /*keepdim=*/true), k);
  const at::Tensor dscores = at::matmul(dout_rows, v.transpose(2, 3)).to(weights.scalar_type()).sub_(taken).mul_(weights);
  const at::Tensor narrow = dscores.mul_(scale_of(q)).to(q.scalar_type());
  return {heads_of_rows(at::matmul(narrow, k), q.size(1)), at::matmul(narrow.transpose(2, 3), rows_of_kv_heads(q, k)), dv};
}

bool is_nothing(const at::Tensor& q, const at::Tensor& k) { return q.numel() == 0 || k.numel() == 0; }

}  // namespace

AttentionKernel attention_kernel(const at::Tensor& q) {
  if (has_weft_kernel(ModelOperation::partial_attention, q.device())) return AttentionKernel::flash;
  return has_fused_kernel(q) ? AttentionKernel::fused : AttentionKernel::formula;
}

// The kernels group query heads themselves, and take any strides.
AttentionPiece attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask,
                      AttentionKernel kernel) {
  check_grouped(q, k, v, mask);
  if (is_nothing(q, k)) return {at::zeros_like(q), at::full(q.sizes().slice(0, 3), kNoKeys, q.options().dtype(wide_type(q)))};
  if (kernel == AttentionKernel::formula) return attend_by_formula(q, k, v, mask);
  if (kernel == AttentionKernel::flash && fits_tiles(q, k, v)) return attend_in_tiles(q, k, v, mask);
  const AttentionPiece piece = attend_fused(q, k, v, mask);
  return {piece.out, piece.logsumexp.contiguous()};  // in one order on every device, as operators round by it
}

AttentionGradients attend_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const AttentionPiece& whole, AttentionMask mask, AttentionKernel kernel) {
  check_grouped(q, k, v, mask);
  check_whole(dout, q, whole);
  if (is_nothing(q, k)) return {at::zeros_like(q), at::zeros_like(k), at::zeros_like(v)};
  if (kernel == AttentionKernel::formula) return attend_backward_by_formula(dout, q, k, v, whole, mask);
  if (kernel == AttentionKernel::flash && fits_tiles(q, k, v)) {
    const AttentionGradients gradients{token_major_like(q), token_major_like(k), token_major_like(v)};
    attend_backward_in_tiles(dout, q, k, v, whole, mask, gradients);
    return gradients;
  }
  return attend_backward_fused(dout, q, k, v, whole, mask);
}

void attend_backward_into(const AttentionGradients& into, const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const AttentionPiece& whole, AttentionMask mask, AttentionKernel kernel) {
  check_grouped(q, k, v, mask);
  check_into(into, q, k, v);
  if (kernel == AttentionKernel::flash && fits_tiles(q, k, v)) {
    return attend_backward_in_tiles(dout, q, k, v, whole, mask, into);
  }
  const AttentionGradients gradients = attend_backward(dout, q, k, v, whole, mask, kernel);
  into.q.copy_(gradients.q);
  into.k.copy_(gradients.k);
  into.v.copy_(gradients.v);
}

// The weight of `part` in the total is exp(b) / (exp(a) + exp(b)) = sigmoid(b - a), which never overflows.
void join(const AttentionPiece& whole, const AttentionPiece& part) {
  const TensorChecks check("attention");
  check.place("whole.out", whole.out, {TensorChecks::kAny, TensorChecks::kAny, TensorChecks::kAny, TensorChecks::kAny},
              whole.out);
  check.place("whole.logsumexp", whole.logsumexp, whole.out.sizes().slice(0, 3), whole.out);
  check.floating("part.out", part.out, whole.out.sizes(), whole.out);
  check.like("part.logsumexp", part.logsumexp, whole.logsumexp);
  // 0 for a part without a score above -inf, even if the whole has no such score so far.
  const at::Tensor weight = part.logsumexp.sub(whole.logsumexp).sigmoid_().masked_fill_(part.logsumexp.eq(kNoKeys), 0);
  whole.out.lerp_(part.out.to(whole.out.scalar_type()), weight.unsqueeze(3));
  at::Tensor sum = whole.logsumexp;
  at::logaddexp_out(sum, whole.logsumexp, part.logsumexp);
}

}  // namespace weft
