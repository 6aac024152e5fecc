// attention: causal self-attention, over a fused projection or over separate queries, keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "weft/nn/block.h"
#include "weft/nn/sequence/documents.h"

namespace weft {

/// Attends within `qkv` [batch, tokens, 3 width]: queries, then keys, then values, each with its heads in order. Returns
/// [batch, tokens, width]. Attention is exact, causal, scaled by 1/sqrt(width / heads), without dropout. Keeps qkv, its output
/// and one number per query and head for backward, never the matrix of weights (FlashAttention, Dao et al. 2022).
at::Tensor attention(const at::Tensor& qkv, int64_t heads);

/// The same for queries [batch, heads, tokens, head width], and keys and values [batch, key-value heads, tokens, head width].
/// Each key-value head serves heads / key-value heads neighbouring query heads (grouped queries, Ainslie et al. 2023,
/// arXiv:2305.13245). Returns [batch, tokens, heads x head width]. Keeps q, k and v as given for backward; on GPUs also k and v
/// repeated for every query head, if they have fewer heads. Throws InputError unless key-value heads divide heads.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// The first overload for sequences whose tokens are divided over context.cp (nn/attention/over_ranks.h), or for packed
/// documents (Documents::runs(); nn/attention/within_documents.h); both together throw InputError. `what` names the call in
/// errors.
at::Tensor attention(const at::Tensor& qkv, int64_t heads, const Context& context, const std::string& what,
                     const DocumentRuns& runs = {});
/// The second overload for such sequences or documents.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Context& context,
                     const std::string& what, const DocumentRuns& runs = {});

}  // namespace weft
