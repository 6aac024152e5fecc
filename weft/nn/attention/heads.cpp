#include "weft/nn/attention/heads.h"

#include <ATen/ops/empty.h>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/nn/tensor_checks.h"

namespace weft {
namespace {

constexpr int64_t kAny = TensorChecks::kAny;

}  // namespace

at::Tensor split_heads(const at::Tensor& qkv, int64_t third, int64_t heads) {
  check_heads(qkv, heads);
  if (third < 0 || third > 2) throw InputError(fmt::format("attention: qkv has no third {}; use 0, 1 or 2", third));
  const int64_t width = qkv.size(2) / 3;
  return qkv.narrow(2, third * width, width).view({qkv.size(0), qkv.size(1), heads, width / heads}).transpose(1, 2);
}

at::Tensor merge_heads(const at::Tensor& x) {
  TensorChecks("attention").floating("x", x, {kAny, kAny, kAny, kAny}, x);
  return x.transpose(1, 2).flatten(2);
}

at::Tensor token_major_like(const at::Tensor& x) {
  return at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
}

at::Tensor as_heads(const at::Tensor& x, int64_t heads) {
  const TensorChecks check("attention");
  check.floating("x", x, {kAny, kAny, kAny}, x);
  check.that(heads >= 1 && x.size(2) % heads == 0, "x", x, fmt::format("[batch, tokens, width of {} equal heads]", heads));
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

void check_heads(const at::Tensor& qkv, int64_t heads) {
  TensorChecks("attention").floating("qkv", qkv, {kAny, kAny, kAny}, qkv);
  if (heads >= 1 && qkv.size(2) % (3 * heads) == 0) return;
  throw InputError(
      fmt::format("attention: rows of {} do not hold queries, keys and values of {} heads; split the projection by whole heads",
                  qkv.size(2), heads));
}

void check_grouped(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask) {
  const TensorChecks check("attention");
  check.floating("q", q, {kAny, kAny, kAny, kAny}, q);
  check.floating("k", k, {q.size(0), kAny, mask == AttentionMask::causal ? q.size(2) : kAny, q.size(3)}, q);
  check.that(k.scalar_type() == q.scalar_type(), "k", k, c10::toString(q.scalar_type()));
  check.like("v", v, k);
  if (q.size(1) > 0 && k.size(1) > 0 && q.size(1) % k.size(1) == 0) return;
  throw InputError(fmt::format("attention: {} query heads do not share {} key-value heads evenly; make q's a multiple",
                               q.size(1), k.size(1)));
}

void check_whole(const at::Tensor& dout, const at::Tensor& q, const AttentionPiece& whole) {
  const TensorChecks check("gradient of attention");
  const at::ScalarType wide = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  check.like("dout", dout, q);
  check.floating("out", whole.out, q.sizes(), q);
  check.floating("logsumexp", whole.logsumexp, q.sizes().slice(0, 3), q);
  check.that(whole.logsumexp.scalar_type() == wide, "logsumexp", whole.logsumexp, c10::toString(wide));
}

void check_into(const AttentionGradients& into, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const TensorChecks check("gradient of attention");
  check.place("into.q", into.q, q.sizes(), q);
  check.place("into.k", into.k, k.sizes(), q);
  check.place("into.v", into.v, v.sizes(), q);
  check.like("into.q", into.q, q);
  check.like("into.k", into.k, k);
  check.like("into.v", into.v, v);
}

namespace {

void check_heads_of(const char* name, const at::Tensor& x, int64_t times, bool are_repeated) {
  const TensorChecks check("repeated heads");
  check.dense(name, x);
  check.that(x.dim() == 4 && times >= 1 && (!are_repeated || x.size(1) % times == 0), name, x,
             fmt::format("[batch, heads, tokens, head width], each head {} times", times));
}

}  // namespace

at::Tensor repeat_heads(const at::Tensor& x, int64_t times) {
  check_heads_of("x", x, times, false);
  return times == 1 ? x : x.unsqueeze(2).expand({-1, -1, times, -1, -1}).flatten(1, 2);
}

at::Tensor sum_repeats(const at::Tensor& gradient, int64_t times) {
  check_heads_of("gradient", gradient, times, true);
  return times == 1 ? gradient : gradient.unflatten(1, {gradient.size(1) / times, times}).sum(2);
}

}  // namespace weft
