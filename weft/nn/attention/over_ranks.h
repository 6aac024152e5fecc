// context_attention: exact causal attention over sequences whose tokens are spread over the ranks of a group, in the zig-zag
// cut of nn/sequence/zigzag.h. Both forms take and return each rank's own tokens, are differentiable once, and are the same as
// attention on one device but for rounding. At size one they are that attention, and cost nothing more.
//
// Shapes: q [batch, heads, own tokens, head width], k and v [batch, kv heads, own tokens, head width], kv heads a divisor of
// heads; the result is like q. Calls are collective, in forward and in backward: every rank of the group makes them in the same
// order, with the same shapes. Bytes on the wire are functions below.
//
// Below, P = batch x own tokens x head width elements a head, E bytes each, and kv the kv heads. Beside what is told, both keep
// one float32 a query and head for backward.
//
// Bytes that a rank sends, as Group::traffic() counts them, with n ranks, t tokens a rank, E bytes an element, and kv' the kv
// heads, repeated where n does not divide them (kv_head_repeats()); times the batch and the head width:
//
//   |          | ring                             | all to all                        |
//   |----------|----------------------------------|-----------------------------------|
//   | forward  | (n-1) t 2 kv E                   | (n-1)/n t (2 heads + 2 kv') E     |
//   | backward | (n-1) t 2 kv (E + max(E, 4))     | the same                          |
//
// A ring sends less where kv heads are few for the ranks; all to all where the ranks are many.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "weft/comm/group.h"
#include "weft/nn/block_layout.h"

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

/// One of the two; ContextMethod::automatic: the one that sends fewer bytes forward and backward, the ring where the ranks
/// do not divide the heads.
at::Tensor context_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Group& cp,
                             ContextMethod method, std::string_view what);

/// What one rank holds of an attention.
struct AttentionShape {
  int64_t batch = 1;          ///< sequences
  int64_t heads = 1;          ///< of queries
  int64_t kv_heads = 1;       ///< of keys, and of values; divides heads
  int64_t tokens = 1;         ///< of each sequence, on this rank
  int64_t head_width = 1;     ///< elements
  int64_t element_bytes = 4;  ///< of q, k and v
  int ranks = 1;              ///< that share each sequence
};

/// The direction.
enum class AttentionPass { forward, backward };

/// Bytes that one rank sends in ring_attention().
int64_t ring_attention_bytes(const AttentionShape& shape, AttentionPass pass);

/// Bytes that one rank sends in all_to_all_attention(). Throws InputError where the ranks do not divide the heads.
int64_t all_to_all_attention_bytes(const AttentionShape& shape, AttentionPass pass);

/// How often all_to_all_attention() sends each kv head, so that every rank gets as many: 1 where the ranks divide them, at most
/// heads / kv heads. Throws InputError, with the numbers of ranks that do, where the ranks do not divide the heads.
int64_t kv_head_repeats(int64_t heads, int64_t kv_heads, int ranks);

}  // namespace weft
