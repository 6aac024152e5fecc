// All forms of attention.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

#include "tests/fuzz_nn/row.h"
#include "weft/nn/attention/attention.h"
#include "weft/nn/attention/call.h"
#include "weft/nn/attention/heads.h"
#include "weft/nn/attention/over_ranks.h"
#include "weft/nn/attention/partial.h"
#include "weft/nn/attention/tiled.h"
#include "weft/nn/attention/within_documents.h"
#include "weft/nn/sequence/zigzag.h"

namespace weft::fuzz_nn {

namespace {

/// Scores, in float64.
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, bool causal) {
  expect(q.dim() == 4 && k.dim() == 4 && k.size(1) > 0 && q.size(1) % k.size(1) == 0);
  expect(k.size(0) == q.size(0) && k.size(3) == q.size(3) && (!causal || k.size(2) == q.size(2)));
  const at::Tensor keys = k.repeat_interleave(q.size(1) / k.size(1), 1);
  at::Tensor scores = at::matmul(q, keys.transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
  if (!causal) return scores;
  const at::Tensor later = at::ones({q.size(2), k.size(2)}, scores.options().dtype(at::kBool)).triu(1);
  return scores.masked_fill(later, -std::numeric_limits<double>::infinity());
}

at::Tensor attended(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal = true) {
  expect(v.sizes() == k.sizes());
  return at::matmul(scores_of(q, k, causal).softmax(-1), v.repeat_interleave(q.size(1) / k.size(1), 1));
}

at::Tensor merged(const at::Tensor& x) { return x.transpose(1, 2).flatten(2); }

/// Queries, keys and values from [batch, tokens, 3 width].
Tensors thirds(const at::Tensor& qkv, int64_t heads) {
  expect(qkv.dim() == 3 && heads >= 1 && qkv.size(2) % (3 * heads) == 0);
  Tensors all;
  for (const at::Tensor& third : qkv.chunk(3, 2))
    all.push_back(third.unflatten(2, {heads, third.size(2) / heads}).transpose(1, 2));
  return all;
}

AttentionMask mask_of(Case& c) { return c.flag(1) ? AttentionMask::causal : AttentionMask::none; }
AttentionKernel kernel_of(Case& c) {
  if (c.flag(2)) return AttentionKernel::flash;
  return c.flag(3) ? AttentionKernel::fused : AttentionKernel::formula;
}

/// Two documents in each sample except the first, if there are enough tokens.
DocumentRuns runs_of(Case& c) {
  const int64_t samples = c.size('b'), tokens = c.size('t'), cut = c.number(4, tokens / 2);
  DocumentRuns runs;
  if (samples > 0 && tokens > 0) runs.push_back({0, c.number(5, 1), 0, tokens});
  for (int64_t sample = 1; sample < samples; ++sample) {
    if (cut != 0) runs.push_back({sample, 1, 0, cut});
    runs.push_back({sample, 1, cut, tokens - cut});
  }
  return runs;
}

at::Tensor within(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Case& c) {
  expect(q.dim() == 4);
  Tensors samples;
  int64_t sample = 0;
  for (const DocumentRun& run : runs_of(c)) {
    expect(run.samples == 1 || run.tokens == q.size(2));
    const auto part = [&](const at::Tensor& x) {
      return x.narrow(0, run.sample, run.samples).narrow(2, run.begin, run.tokens);
    };
    const at::Tensor one = attended(part(q), part(k), part(v));
    if (run.begin == 0) {
      expect(run.sample == sample);
      samples.push_back(one);
      sample += run.samples;
    } else {
      samples.back() = at::cat({samples.back(), one}, 2);
    }
  }
  const at::Tensor all = samples.empty() ? q.narrow(0, 0, 0) : at::cat(samples);
  expect(all.sizes() == q.sizes() || (samples.empty() && q.size(0) * q.size(2) == 0));
  return merged(samples.empty() ? q : all);
}

/// The gradients of q, k and v.
Tensors backward_formula(const at::Tensor& dout, const Tensors& qkv, bool causal) {
  const at::AutoGradMode with_graph(true);
  Tensors leaves;
  for (const at::Tensor& x : qkv) leaves.push_back(x.detach().requires_grad_());
  const at::Tensor out = attended(leaves[0], leaves[1], leaves[2], causal);
  expect(out.sizes() == dout.sizes());
  out.mul(dout).sum().backward();
  return {leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

/// The whole attention in the type that backward takes.
AttentionPiece whole_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Case& c) {
  return attend(q, k, v, mask_of(c), AttentionKernel::formula);
}

std::vector<Row> call_rows() {
  const Call formula = [](auto& a) { return merged(attended(a[0], a[1], a[2])); };
  const Call unmerged = [](auto& a) { return attended(a[0], a[1], a[2]); };
  const Call of_qkv = [](auto& a, Case& c) {
    const Tensors x = thirds(a[0], c.number(1, c.size('h')));
    return merged(attended(x[0], x[1], x[2]));
  };
  const Call of_documents = [](auto& a, Case& c) { return within(a[0], a[1], a[2], c); };
  return {
      {"attention", "fdb~ btQ", [](auto& a, Case& c) { return attention(a[0], c.number(1, c.size('h'))); }, of_qkv},
      {"attention", "fdb~ bHtw bktw bktw", [](auto& a) { return attention(a[0], a[1], a[2]); }, formula},
      {"attention", "fdb~ btQ", [](auto& a, Case& c) { return attention(a[0], c.number(1, c.size('h')), {}, "h", runs_of(c)); },
       [](auto& a, Case& c) {
         const Tensors x = thirds(a[0], c.number(1, c.size('h')));
         return runs_of(c).empty() ? merged(attended(x[0], x[1], x[2])) : within(x[0], x[1], x[2], c);
       }},
      {"document_attention", "fdb~ btQ",
       [](auto& a, Case& c) { return document_attention(a[0], c.number(1, c.size('h')), runs_of(c)); },
       [](auto& a, Case& c) {
         const Tensors x = thirds(a[0], c.number(1, c.size('h')));
         return within(x[0], x[1], x[2], c);
       }},
      {"document_attention", "fdb~ bHtw bktw bktw",
       [](auto& a, Case& c) { return document_attention(a[0], a[1], a[2], runs_of(c)); }, of_documents},
      {"document_attention_by_graph", "fdb~ bHtw bktw bktw",
       [](auto& a, Case& c) { return document_attention_by_graph(a[0], a[1], a[2], runs_of(c)); }, of_documents},
      {"ring_attention", "fdb~ bHtw bktw bktw", [](auto& a) { return ring_attention(a[0], a[1], a[2], {}, "h"); }, unmerged},
      {"all_to_all_attention", "fdb~ bHtw bktw bktw", [](auto& a) { return all_to_all_attention(a[0], a[1], a[2], {}, "h"); },
       unmerged},
      {"context_attention", "fdb~ bHtw bktw bktw",
       [](auto& a) { return context_attention(a[0], a[1], a[2], {}, ContextMethod::automatic, "h"); }, unmerged},
  };
}

std::vector<Row> piece_rows() {
  const Call piece = [](auto& a, Case& c) {
    const AttentionPiece all = attend(a[0], a[1], a[2], mask_of(c), kernel_of(c));
    return list(all.out, a[0].size(3) > 0 && a[1].size(2) > 0 ? all.logsumexp : at::Tensor());
  };
  const Call piece_formula = [](auto& a, Case& c) {
    const bool causal = mask_of(c) == AttentionMask::causal;
    return list(attended(a[0], a[1], a[2], causal),
                a[0].size(3) > 0 && a[1].size(2) > 0 ? at::logsumexp(scores_of(a[0], a[1], causal), {-1}) : at::Tensor());
  };
  const Call gradients = [](auto& a, Case& c) {
    return backward_formula(a[0], {a[1], a[2], a[3]}, mask_of(c) == AttentionMask::causal);
  };
  const Call into_gradients = [](auto& a, Case& c) {
    return backward_formula(a[0], {a[1], a[2], a[3]}, mask_of(c) == AttentionMask::causal);
  };
  return {
      {"attend", "bHtw bksw bksw",
       [](auto& a, Case& c) { return attend(a[0], a[1], a[2], AttentionMask::none, kernel_of(c)).out; },
       [](auto& a) { return attended(a[0], a[1], a[2], false); }},
      {"attend", "bHtw bktw bktw", piece, piece_formula},
      {"attend_in_tiles", "fb: bHtw bktw bktw",
       [](auto& a, Case& c) {
         const AttentionPiece all = attend_in_tiles(a[0], a[1], a[2], mask_of(c));
         return list(all.out, all.logsumexp);
       },
       piece_formula},
      {"attend_backward", "bHtw bHtw bktw bktw",
       [](auto& a, Case& c) {
         const AttentionGradients g =
             attend_backward(a[0], a[1], a[2], a[3], whole_of(a[1], a[2], a[3], c), mask_of(c), kernel_of(c));
         return list(g.q, g.k, g.v);
       },
       gradients},
      {"attend_backward", "bHtw bHtw bktw bktw bHtw bHt",
       [](auto& a, Case& c) {
         attend_backward(a[0], a[1], a[2], a[3], {a[4], a[5]}, mask_of(c), kernel_of(c));
       }},
      {"attend_backward_into", "bHtw bHtw bktw bktw bHtw bktw bktw",
       [](auto& a, Case& c) {
         attend_backward_into({a[4], a[5], a[6]}, a[0], a[1], a[2], a[3], whole_of(a[1], a[2], a[3], c), mask_of(c),
                              kernel_of(c));
         return list(a[4], a[5], a[6]);
       },
       into_gradients},
      {"attend_backward_in_tiles", "fb: bHtw bHtw bktw bktw bHtw bktw bktw",
       [](auto& a, Case& c) {
         attend_backward_in_tiles(a[0], a[1], a[2], a[3], whole_of(a[1], a[2], a[3], c), mask_of(c), {a[4], a[5], a[6]});
         return list(a[4], a[5], a[6]);
       },
       into_gradients},
      {"join", "fd: bktw bkt bktw bkt",
       [](auto& a) {
         return join({a[0], a[1]}, {a[2], a[3]}), list(a[0], a[1]);
       },
       [](auto& a) {
         expect(a[1].sizes() == a[3].sizes() && a[0].sizes() == a[2].sizes() && a[0].dim() == 4 && a[1].dim() == 3);
         const at::Tensor sum = at::logaddexp(a[1], a[3]);
         return list(a[0] * (a[1] - sum).exp().unsqueeze(3) + a[2] * (a[3] - sum).exp().unsqueeze(3), sum);
       }},
      {"fits_tiles", "bHtw bktw bktw", [](auto& a) { fits_tiles(a[0], a[1], a[2]); }},
  };
}

std::vector<Row> head_rows() {
  return {
      {"split_heads", "fdb~ btQ", [](auto& a, Case& c) { return split_heads(a[0], c.number(2, 1), c.number(1, c.size('h'))); },
       [](auto& a, Case& c) { return thirds(a[0], c.number(1, c.size('h'))).at(c.number(2, 1)); }},
      {"merge_heads", "fdb~ bktw", [](auto& a) { return merge_heads(a[0]); },
       [](auto& a) { return expect(a[0].dim() == 4), merged(a[0]); }},
      {"as_heads", "fdb~ btQ", [](auto& a, Case& c) { return as_heads(a[0], c.number(1, c.size('h'))); },
       [](auto& a, Case& c) {
         const int64_t heads = c.number(1, c.size('h'));
         expect(heads >= 1 && a[0].dim() == 3 && a[0].size(2) % heads == 0);
         return a[0].unflatten(2, {heads, a[0].size(2) / heads}).transpose(1, 2);
       }},
      {"check_heads", "btQ", [](auto& a, Case& c) { check_heads(a[0], c.number(1, c.size('h'))); }},
      {"check_grouped", "bHtw bktw bktw", [](auto& a) { check_grouped(a[0], a[1], a[2]); }},
      {"check_whole", "fd: bHtw bHtw bHtw bHt",
       [](auto& a) {
         check_whole(a[0], a[1], {a[2], a[3]});
       }},
      {"check_into", "bHtw bktw bktw bHtw bktw bktw",
       [](auto& a) {
         check_into({a[0], a[1], a[2]}, a[3], a[4], a[5]);
       }},
      {"check", "bHtw bktw bktw",
       [](auto& a) {
         check({"f", {}, "h"}, a[0], a[1], a[2]);
       }},
      {"repeat_heads", "fdb~ bktw", [](auto& a, Case& c) { return repeat_heads(a[0], c.number(1, 2)); },
       [](auto& a, Case& c) { return expect(a[0].dim() == 4), a[0].repeat_interleave(c.number(1, 2), 1); }},
      {"sum_repeats", "bHtw", [](auto& a, Case& c) { return sum_repeats(a[0], c.number(1, c.size('H'))); },
       [](auto& a, Case& c) {
         const int64_t times = c.number(1, c.size('H'));
         expect(a[0].dim() == 4 && times >= 1 && a[0].size(1) % times == 0);
         return a[0].unflatten(1, {a[0].size(1) / times, times}).sum(2);
       }},
      {"take_shards", "fdb~ btw",
       [](auto& a, Case& c) {
         return take_shards(a[0], c.number(1, 1), {{0, c.number(2, 1)}, {c.number(3, 0), 1}});
       },
       [](auto& a, Case& c) {
         const int64_t dim = c.number(1, 1), end = c.number(2, 1), begin = c.number(3, 0);
         expect(begin >= 0);
         return at::cat({a[0].narrow(dim, 0, end), a[0].narrow(dim, begin, 1 - begin)}, dim);
       }},
  };
}

}  // namespace

std::vector<Row> attention_rows() {
  std::vector<Row> all = call_rows();
  for (const auto& rows : {piece_rows(), head_rows()}) all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

}  // namespace weft::fuzz_nn
