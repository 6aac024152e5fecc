#include "weft/nn/attention/over_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "weft/base/error.h"
#include "weft/nn/attention/call.h"

namespace weft {
namespace {

bool ring_sends_less(const AttentionShape& shape) {
  if (shape.heads % shape.ranks != 0) return true;
  const auto both = [&shape](auto bytes) {
    return bytes(shape, AttentionPass::forward) + bytes(shape, AttentionPass::backward);
  };
  return both(ring_attention_bytes) < both(all_to_all_attention_bytes);
}

}  // namespace

at::Tensor context_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Group& cp,
                             ContextMethod method, std::string_view what) {
  check({"attention", cp, std::string(what)}, q, k, v);
  const AttentionShape shape = {.batch = q.size(0),
                                .heads = q.size(1),
                                .kv_heads = k.size(1),
                                .tokens = q.size(2),
                                .head_width = q.size(3),
                                .element_bytes = static_cast<int64_t>(q.element_size()),
                                .ranks = cp.size()};
  const bool ring = method == ContextMethod::ring || (method == ContextMethod::automatic && ring_sends_less(shape));
  return ring ? ring_attention(q, k, v, cp, what) : all_to_all_attention(q, k, v, cp, what);
}

namespace {

/// All divisors of `number`: "1, 2, 3, 6".
std::string divisors_text(int64_t number) {
  std::string text;
  for (int64_t divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", divisor);
  }
  return text;
}

/// Elements of `heads` heads on one rank.
int64_t elements(const AttentionShape& shape, int64_t heads) { return shape.batch * heads * shape.tokens * shape.head_width; }

}  // namespace

// Gradients of keys and values travel in the type that they are summed in, one step behind the keys and values themselves.
int64_t ring_attention_bytes(const AttentionShape& shape, AttentionPass pass) {
  const int64_t gradient_bytes = pass == AttentionPass::forward ? 0 : std::max<int64_t>(shape.element_bytes, 4);
  return (shape.ranks - 1) * 2 * elements(shape, shape.kv_heads) * (shape.element_bytes + gradient_bytes);
}

// Forward sends q, k and v and returns the output; backward sends the output's gradient and returns theirs.
int64_t all_to_all_attention_bytes(const AttentionShape& shape, AttentionPass /*both are alike*/) {
  const int64_t kv_heads = shape.kv_heads * kv_head_repeats(shape.heads, shape.kv_heads, shape.ranks);
  return elements(shape, 2 * (shape.heads + kv_heads)) * shape.element_bytes / shape.ranks * (shape.ranks - 1);
}

// r kv heads are a multiple of n first for r = n / gcd(n, kv heads), which divides heads / kv heads because n divides heads.
int64_t kv_head_repeats(int64_t heads, int64_t kv_heads, int ranks) {
  if (heads % ranks != 0) {
    throw InputError(fmt::format(
        "{} ranks cannot share {} attention heads evenly; use {} ranks (layout.cp), or layout.context_attention = \"ring\"",
        ranks, heads, divisors_text(heads)));
  }
  return ranks / std::gcd(int64_t{ranks}, kv_heads);
}

}  // namespace weft
