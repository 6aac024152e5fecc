// document_attention: causal attention within documents that lie side by side, a call a document: n of one length cost the n-th
// part of what one as long as all of them does, and no mask is made.
//
// Shapes as in nn/attention/attention.h; `runs` covers all tokens (nn/sequence/documents.h). Results and gradients of a
// document are those of a call with it alone, bit for bit. Keeps what attention() keeps; beside that, the output or the
// gradients of one document at a time. On GPUs it is document_attention_by_graph().
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/sequence/documents.h"

namespace weft {

/// Attends within each document of `qkv` [batch, tokens, 3 width], as attention(qkv, heads).
at::Tensor document_attention(const at::Tensor& qkv, int64_t heads, const DocumentRuns& runs);

/// The same of queries, keys and values by themselves, as attention(q, k, v).
at::Tensor document_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const DocumentRuns& runs);

/// The second, made of LibTorch's attention and copies of what it gives, on any device; autograd keeps what it needs.
at::Tensor document_attention_by_graph(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const DocumentRuns& runs);

}  // namespace weft
