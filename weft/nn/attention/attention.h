// attention: causal self-attention, over a fused projection or over queries, keys and values by themselves.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "weft/nn/block.h"
#include "weft/nn/sequence/documents.h"

namespace weft {

/// Attends within `qkv` [batch, tokens, 3 width], queries, keys and values, heads side by side inside each third; returns
/// [batch, tokens, width]. Exact, causal, scaled by 1/sqrt(width / heads), without dropout. Keeps qkv, its output and one
/// number a query and head for backward, never the matrix of weights (FlashAttention, Dao et al. 2022).
at::Tensor attention(const at::Tensor& qkv, int64_t heads);

/// The same of queries [batch, heads, tokens, head width], and keys and values [batch, key-value heads, tokens, head width],
/// each of which serves heads / key-value heads neighbouring queries (grouped queries, Ainslie et al. 2023, arXiv:2305.13245);
/// returns [batch, tokens, heads x head width]. Backward keeps all three as they came; on GPUs
/// a copy of keys and values for every query head is kept until then, unless there are as many of them. Throws InputError when
/// heads is not a multiple.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// The first over sequences whose tokens are divided over context.cp (nn/attention/over_ranks.h), or within documents that lie
/// side by side in them (Documents::runs(); nn/attention/within_documents.h), not both: InputError. `what` names it in errors.
at::Tensor attention(const at::Tensor& qkv, int64_t heads, const Context& context, const std::string& what,
                     const DocumentRuns& runs = {});
/// The second over such sequences.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Context& context,
                     const std::string& what, const DocumentRuns& runs = {});

}  // namespace weft
