// context_attention: exact causal attention over sequences whose tokens are divided over the ranks of a group, in the zig-zag
// cut of nn/sequence/zigzag.h. Both methods take and return each rank's own tokens, are differentiable once, and match
// attention on one device up to rounding. With one rank they are plain attention, at no extra cost.
//
// Shapes: q [batch, heads, own tokens, head width], k and v [batch, kv heads, own tokens, head width], kv heads a divisor of
// heads; the result has q's shape. Calls are collective, in forward and in backward: every rank of the group makes them in the
// same order, with the same shapes. The functions at the end return the bytes sent.
//
// Below, P = batch x own tokens x head width is the elements per head, E the bytes per element, and kv the number of kv heads.
// In addition to the memory listed, both methods keep one float32 per query and head for backward.
//
// Bytes sent per rank, as counted by Group::traffic(), divided by batch x head width; for n ranks, t tokens per rank, and kv'
// kv heads after repetition, which is needed where n does not divide kv (kv_head_repeats()):
//
//   |          | ring                             | all to all                        |
//   |----------|----------------------------------|-----------------------------------|
//   | forward  | (n-1) t 2 kv E                   | (n-1)/n t (2 heads + 2 kv') E     |
//   | backward | (n-1) t 2 kv (E + max(E, 4))     | the same                          |
//
// The ring sends less if there are few kv heads relative to the ranks, all-to-all if there are many ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "weft/comm/group.h"
#include "weft/nn/block_layout.h"

namespace weft {

/// Keys and values circulate around the ranks, and each rank attends to the current ones while the next are in flight (Liu et
/// al. 2023, Ring Attention, arXiv:2310.01889). Works on any number of ranks. A rank computes only the unmasked half of another
/// rank's piece, so all ranks have the same work. Pieces are merged, and gradients summed, in float32.
/// - Bytes sent: forward (n-1) 2 kv P E; backward (n-1) 2 kv P (E + 4).
/// - Memory: keeps q, k, v and the output, no copies. Temporarily, forward: 4 kv P E, and two outputs in float32; backward:
///   4 kv P E, 6 kv P and heads P sums in float32, and the gradients of one piece and its kernel's scratch. Without a kernel
///   for a device, type and head width (attention_kernel()) also the scores of a piece: up to two matrices of
///   [batch, heads, own tokens, own tokens] in float32, three backward.
///
/// `what` names the calls in errors. Throws InputError for shapes that do not fit or a sequence that cannot be cut this way,
/// and the errors of Group's calls.
at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Group& cp,
                          std::string_view what);

/// A first exchange gives each rank all tokens of its share of the heads, a second one returns the output (Jacobs et al. 2023,
/// DeepSpeed-Ulysses, arXiv:2309.14509). The number of ranks must divide the heads; kv heads that it does not divide are sent
/// several times.
/// - Bytes sent: (n-1)/n (2 heads + 2 kv repeats) P E, forward and backward alike (kv_head_repeats()).
/// - Memory: keeps copies of q, k, v and the output, exchanged. Temporarily, forward: twice q, k and v as sent; backward: three
///   times. Without a kernel also scores, as above, of [batch, own heads, tokens, tokens].
///
/// `what` and errors as above; also throws InputError when the number of ranks does not divide the heads.
at::Tensor all_to_all_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Group& cp,
                                std::string_view what);

/// Attends by this method. ContextMethod::automatic: by the one that sends fewer bytes, forward plus backward, or by the ring
/// when the number of ranks does not divide the heads.
at::Tensor context_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Group& cp,
                             ContextMethod method, std::string_view what);

/// Sizes of one rank's share of an attention.
struct AttentionShape {
  int64_t batch = 1;          ///< sequences
  int64_t heads = 1;          ///< query heads
  int64_t kv_heads = 1;       ///< number of key heads, and of value heads; divides heads
  int64_t tokens = 1;         ///< tokens of each sequence on this rank
  int64_t head_width = 1;     ///< elements
  int64_t element_bytes = 4;  ///< per element of q, k and v
  int ranks = 1;              ///< ranks that share each sequence
};

/// The direction.
enum class AttentionPass { forward, backward };

/// Bytes that one rank sends in ring_attention().
int64_t ring_attention_bytes(const AttentionShape& shape, AttentionPass pass);

/// Bytes that one rank sends in all_to_all_attention(). Throws InputError unless `ranks` divides the heads.
int64_t all_to_all_attention_bytes(const AttentionShape& shape, AttentionPass pass);

/// Number of times that all_to_all_attention() sends each kv head, so that every rank gets equally many: 1 when `ranks` divides
/// them, at most heads / kv heads. Throws InputError, listing the valid numbers of ranks, unless `ranks` divides the heads.
int64_t kv_head_repeats(int64_t heads, int64_t kv_heads, int ranks);

}  // namespace weft
