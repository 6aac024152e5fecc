// attention_bytes: what attention over sequence shards (nn/context_attention.h) sends, as formulas. Free of LibTorch, for those
// who choose.
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

#include <cstdint>

namespace weft {

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
