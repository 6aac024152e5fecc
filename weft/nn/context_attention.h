// context_attention: exact causal attention over sequences whose tokens are spread over the ranks of a group, in the zig-zag
// cut of nn/sequence_shards.h. Both forms take and return each rank's own tokens, are differentiable once, and are the same as
// attention on one device but for rounding. At size one they are that attention, and cost nothing more.
//
// Shapes: q [batch, heads, own tokens, head width], k and v [batch, kv heads, own tokens, head width], kv heads a divisor of
// heads; the result is like q. Calls are collective, in forward and in backward: every rank of the group makes them in the same
// order, with the same shapes. nn/attention_bytes.h has the bytes on the wire as functions.
//
// Below, P = batch x own tokens x head width elements a head, E bytes each, and kv the kv heads. Beside what is told, both keep
// one float32 a query and head for backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "weft/comm/group.h"
#include "weft/nn/attention_method.h"

namespace weft {

/// Keys and values go round the ranks, and each attends to those at hand while the next are on their way (Liu et al. 2023, Ring
/// Attention, arXiv:2310.01889). Any number of ranks. Of what comes by, each rank computes what is not masked: half, but for
/// its own, so that all have the same work. Pieces are joined, and gradients summed, in float32.
/// - Bytes sent: forward (n-1) 2 kv P E; backward (n-1) 2 kv P (E + 4).
/// - Memory: keeps q, k, v and the output, no copies. At a time, forward: 4 kv P E, and two outputs in float32; backward:
///   4 kv P E, 6 kv P and heads P sums in float32, and the gradients of one piece. On GPUs also the scores of a piece, up to
///   two matrices of [batch, heads, own tokens, own tokens] in float32, three backward (AttentionKernel::formula), which
///   `weft memory` does not count.
///
/// `what` names the calls in errors. Throws InputError for shapes that do not fit, also where the sequence cannot be cut so,
/// and what Group's calls throw.
at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Group& cp,
                          std::string_view what);

/// One exchange gives each rank all tokens of its share of the heads, a second one brings the output back (Jacobs et al. 2023,
/// DeepSpeed-Ulysses, arXiv:2309.14509). The ranks must divide the heads; kv heads are sent several times where the ranks do
/// not divide them.
/// - Bytes sent: (n-1)/n (2 heads + 2 kv repeats) P E, forward and backward alike (kv_head_repeats()).
/// - Memory: keeps copies of q, k, v and the output, exchanged. At a time, forward: twice q, k and v as sent; backward: three
///   times. On GPUs also scores, as above, of [batch, own heads, tokens, tokens].
///
/// `what` and errors as above; InputError also where the ranks do not divide the heads.
at::Tensor all_to_all_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Group& cp,
                                std::string_view what);

/// One of the two; ContextAttention::automatic: the one that sends fewer bytes forward and backward, the ring where the ranks
/// do not divide the heads.
at::Tensor context_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Group& cp,
                             ContextAttention method, std::string_view what);

}  // namespace weft
