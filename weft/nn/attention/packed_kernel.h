// Attention within packed documents by one call of LibTorch's flash attention for sequences of several lengths, where a device
// has it: bfloat16 and float16 on CUDA. Elsewhere each document is a call of its own (nn/attention/within_documents.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/sequence/documents.h"

namespace weft {

/// Returns whether there is such a kernel for queries q [batch, heads, tokens, head width] and so many documents: a CUDA grid
/// has one row of blocks per document.
bool has_packed_kernel(const at::Tensor& q, const DocumentRuns& runs);

/// Causal attention within documents, which autograd sees, of q to k and v [batch, kv heads, tokens, head width]; returns
/// [batch, tokens, heads x head width]. `runs` holds all tokens. The first call with these runs copies where documents begin to
/// the device, without a wait.
at::Tensor attend_packed(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const DocumentRuns& runs);

}  // namespace weft
