// All-to-all attention: exchanges the tokens of all heads for all tokens of some heads, and back.
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>

#include "weft/nn/attention/call.h"
#include "weft/nn/attention/heads.h"
#include "weft/nn/attention/over_ranks.h"
#include "weft/nn/attention/partial.h"
#include "weft/nn/sequence/zigzag.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Number of heads of each tensor that a rank attends with; `parts` is 1 if the tensors have only those heads.
std::vector<int64_t> shares_of(const variable_list& tensors, int64_t parts) {
  std::vector<int64_t> shares;
  for (const at::Tensor& x : tensors) shares.push_back(x.size(1) / parts);
  return shares;
}

/// Buffer for exchanging these tensors: [ranks, batch, shares in sequence, own tokens, head width].
at::Tensor make_packed(const variable_list& tensors, const std::vector<int64_t>& shares, int ranks, int64_t own_tokens) {
  const at::Tensor& x = tensors.front();
  const int64_t heads = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  return at::empty({ranks, x.size(0), heads, own_tokens, x.size(3)}, x.options());
}

at::Tensor exchange(const AttentionCall& call, const at::Tensor& packed, std::string_view content) {
  const at::Tensor received = at::empty_like(packed);
  call.group.all_to_all(received, packed, fmt::format("{}: {}", call.what, content)).wait();
  return received;
}

/// Visits the same tokens in `packed` [ranks, batch, heads, own tokens, head width] and in `whole` [batch, heads, all tokens,
/// head width], which is in sequence order.
template <class Visit>
void for_each_chunk(const at::Tensor& packed, const at::Tensor& whole, Visit visit) {
  const int ranks = static_cast<int>(packed.size(0));
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t own = 0;
    for (const ShardRange& range : zigzag(whole.size(2), ranks, rank)) {
      const int64_t count = range.end - range.begin;
      visit(packed[rank].narrow(2, own, count), whole.narrow(2, range.begin, count));
      own += count;
    }
  }
}

/// Packs [batch, heads, own tokens, head width] for exchange into [batch, heads / ranks, all tokens, head width].
at::Tensor pack_for_heads(const variable_list& own, const std::vector<int64_t>& shares, int ranks) {
  const at::Tensor packed = make_packed(own, shares, ranks, own.front().size(2));
  const variable_list outgoing = packed.split_with_sizes(shares, 2);
  for (size_t i = 0; i < own.size(); ++i) outgoing[i].copy_(own[i].unflatten(1, {ranks, shares[i]}).transpose(0, 1));
  return packed;
}

/// Packs the results for the exchange back.
at::Tensor pack_for_tokens(const variable_list& whole, const std::vector<int64_t>& shares, int ranks) {
  const at::Tensor packed = make_packed(whole, shares, ranks, whole.front().size(2) / ranks);
  const variable_list outgoing = packed.split_with_sizes(shares, 2);
  for (size_t i = 0; i < whole.size(); ++i) {
    for_each_chunk(outgoing[i], whole[i], [](const at::Tensor& to, const at::Tensor& from) { to.copy_(from); });
  }
  return packed;
}

variable_list to_heads(const AttentionCall& call, const variable_list& own, std::string_view content) {
  const int ranks = call.group.size();
  if (ranks == 1) return own;
  const std::vector<int64_t> shares = shares_of(own, ranks);
  const at::Tensor received = exchange(call, pack_for_heads(own, shares, ranks), content);
  variable_list whole;
  for (const at::Tensor& x : received.split_with_sizes(shares, 2)) {
    whole.push_back(at::empty({x.size(1), x.size(2), x.size(3) * ranks, x.size(4)}, x.options()));
    for_each_chunk(x, whole.back(), [](const at::Tensor& from, const at::Tensor& to) { to.copy_(from); });
  }
  return whole;
}

variable_list to_tokens(const AttentionCall& call, const variable_list& whole, std::string_view content) {
  const int ranks = call.group.size();
  if (ranks == 1) return whole;
  const std::vector<int64_t> shares = shares_of(whole, 1);
  const at::Tensor received = exchange(call, pack_for_tokens(whole, shares, ranks), content);
  variable_list own;
  for (const at::Tensor& x : received.split_with_sizes(shares, 2)) own.push_back(x.transpose(0, 1).flatten(1, 2));
  return own;
}

struct AllToAllAttention : torch::autograd::Function<AllToAllAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionCall& call) {
    const int64_t repeats = kv_head_repeats(q.size(1), k.size(1), call.group.size());
    const variable_list heads =
        to_heads(call, {q, repeat_heads(k, repeats), repeat_heads(v, repeats)}, "queries, keys and values");
    const AttentionPiece whole = attend(heads[0], heads[1], heads[2], AttentionMask::causal, attention_kernel(q));
    ctx->saved_data["call"] = keep_call(call);
    ctx->saved_data["repeats"] = repeats;
    ctx->save_for_backward({heads[0], heads[1], heads[2], whole.out, whole.logsumexp});
    return to_tokens(call, {whole.out}, "output")[0];
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const AttentionCall& call = kept_for_backward(ctx->saved_data["call"]);
    const int64_t repeats = ctx->saved_data["repeats"].toInt();
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor dout = to_heads(call, {grads[0]}, "gradient of the output")[0];
    const AttentionGradients heads = attend_backward(dout, saved[0], saved[1], saved[2], {saved[3], saved[4]},
                                                     AttentionMask::causal, attention_kernel(dout));
    const variable_list own = to_tokens(call, {heads.q, heads.k, heads.v}, "gradients of queries, keys and values");
    return {own[0], sum_repeats(own[1], repeats), sum_repeats(own[2], repeats), {}};
  }
};

}  // namespace

at::Tensor all_to_all_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Group& cp,
                                std::string_view what) {
  const AttentionCall call{"all-to-all attention", cp, std::string(what)};
  check(call, q, k, v);
  check_at_call(call, [&] { kv_head_repeats(q.size(1), k.size(1), cp.size()); });
  return AllToAllAttention::apply(q, k, v, call);
}

}  // namespace weft
