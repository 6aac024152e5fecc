// document_attention: causal attention within packed documents, one call per document. n documents of equal length cost 1/n of
// one document of their total length, and no mask is made.
//
// Shapes as in nn/attention/attention.h; `runs` covers all tokens (nn/sequence/documents.h). Results and gradients of a
// document are bit-identical to a call with that document alone. Keeps what attention() keeps, and temporarily holds the output
// or the gradients of the current document. On GPUs, calls document_attention_by_graph().
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/sequence/documents.h"

namespace weft {

/// Attends within each document of `qkv` [batch, tokens, 3 width], as attention(qkv, heads).
at::Tensor document_attention(const at::Tensor& qkv, int64_t heads, const DocumentRuns& runs);

/// The same for separate queries, keys and values, as attention(q, k, v).
at::Tensor document_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const DocumentRuns& runs);

/// The second overload, made from LibTorch's attention and copies of its results, on any device; autograd keeps what it needs.
at::Tensor document_attention_by_graph(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const DocumentRuns& runs);

}  // namespace weft
