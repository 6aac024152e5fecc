// attention_kernels: attention of the query heads that read one key-value head, forward and backward, without a matrix of
// scores (Dao et al. 2022, arXiv:2205.14135), in tiles of 64 queries and 64 keys that stay in the cache. Tiles fully hidden by
// a causal mask are skipped.
//
// Products and sums are float32, accumulated sequentially along the inner dim.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Heads [heads, tokens, width] as views into larger tensors; the elements of a token's head are contiguous.
struct HeadRows {
  void* data = nullptr;  ///< the first head's first token
  int64_t head = 0;      ///< elements from one head to the next
  int64_t token = 0;     ///< elements from one token to the next
};

/// Gradients that a backward job makes. Two jobs, one for queries, one for keys and values, take 7/5 of the time of one.
enum class GradientsOf { all, queries, keys };

/// One key-value head and the query heads that read it, or a part of that work; parts give the same bits.
struct AttentionJob {
  HeadRows q = {};                     ///< [heads, queries, width]
  HeadRows k = {};                     ///< [1, keys, width]
  HeadRows v = {};                     ///< [1, keys, width]
  HeadRows out = {};                   ///< like q; read by backward
  HeadRows logsumexp = {};             ///< [heads, queries, 1], float32; read by backward
  HeadRows dout = {};                  ///< like q; backward only
  HeadRows dq = {}, dk = {}, dv = {};  ///< like q, k and v: written by backward
  int64_t heads = 1;                   ///< query heads
  int64_t queries = 0;                 ///< queries per head
  int64_t keys = 0;                    ///< equal to queries if `causal`
  int64_t width = 0;                   ///< head width
  /// Parts take turns at tiles of queries, head after head; with GradientsOf::keys, at tiles of keys.
  int64_t part = 0, parts = 1;
  GradientsOf gradients = GradientsOf::all;  ///< `all` requires a single part
  bool causal = false;                       ///< a query sees the keys at its own position and before
  float scale = 1.0F;                        ///< factor of the scores
  float* scratch = nullptr;  ///< attention_scratch() floats, aligned to 64 bytes; not shared with another running job
};

/// Number of tiles for `tokens` queries or keys.
int64_t attention_tiles(int64_t tokens);

/// Floats of scratch that a job needs: about two copies of its keys and values forward, five backward.
int64_t attention_scratch(const AttentionJob& job, bool backward);

/// Writes `out` and `logsumexp`.
void attend_job(Element element, const AttentionJob& job);
/// Writes the gradients.
void attend_backward_job(Element element, const AttentionJob& job);

}  // namespace weft
