#include "weft/nn/context_attention.h"

#include "weft/nn/attention_bytes.h"
#include "weft/nn/attention_call.h"

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
                             ContextAttention method, std::string_view what) {
  check({"attention", cp, std::string(what)}, q, k, v);
  const AttentionShape shape = {.batch = q.size(0),
                                .heads = q.size(1),
                                .kv_heads = k.size(1),
                                .tokens = q.size(2),
                                .head_width = q.size(3),
                                .element_bytes = static_cast<int64_t>(q.element_size()),
                                .ranks = cp.size()};
  const bool ring = method == ContextAttention::ring || (method == ContextAttention::automatic && ring_sends_less(shape));
  return ring ? ring_attention(q, k, v, cp, what) : all_to_all_attention(q, k, v, cp, what);
}

}  // namespace weft
