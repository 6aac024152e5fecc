// attention_kernels: attention of the query heads that read one key-value head, forward and backward, without a matrix of
// scores (Dao et al. 2022, arXiv:2205.14135): tiles of 64 queries and 64 keys, which stay in the cache. Of tiles that a causal
// mask hides nothing is computed.
//
// Products and sums are float32, one multiplication after another along the inner dim.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Heads [heads, tokens, width] in memory, as views of larger tensors have them; elements of a token's head lie side by side.
struct HeadRows {
  void* data = nullptr;  ///< of the first head's first token
  int64_t head = 0;      ///< elements from one head to the next
  int64_t token = 0;     ///< elements from one token to the next
};

/// Which gradients a backward job makes. Those of queries and those of keys and values each by themselves take 7/5 of the time.
enum class GradientsOf { all, queries, keys };

/// One key-value head, and the query heads that read it; or a part of that, which has the same bits.
struct AttentionJob {
  HeadRows q = {};                     ///< [heads, queries, width]
  HeadRows k = {};                     ///< [1, keys, width]
  HeadRows v = {};                     ///< [1, keys, width]
  HeadRows out = {};                   ///< like q; backward reads it
  HeadRows logsumexp = {};             ///< [heads, queries, 1], float32; backward reads it
  HeadRows dout = {};                  ///< like q; backward alone
  HeadRows dq = {}, dk = {}, dv = {};  ///< like q, k and v: what backward writes
  int64_t heads = 1;                   ///< query heads
  int64_t queries = 0;                 ///< of each
  int64_t keys = 0;                    ///< as many as queries where `causal`
  int64_t width = 0;                   ///< of a head
  /// Of parts that take tiles of queries, of all heads one after another, by turns; those of GradientsOf::keys tiles of keys.
  int64_t part = 0, parts = 1;
  GradientsOf gradients = GradientsOf::all;  ///< `all` in one part alone
  bool causal = false;                       ///< a query sees the keys at its own place and before
  float scale = 1.0F;                        ///< of scores
  float* scratch = nullptr;  ///< attention_scratch() floats, aligned to 64 bytes; used by no other job at a time
};

/// Tiles of so many queries or keys.
int64_t attention_tiles(int64_t tokens);

/// Floats that a job needs: about two copies of its keys and values forward, five backward.
int64_t attention_scratch(const AttentionJob& job, bool backward);

/// Writes `out` and `logsumexp`.
void attend_job(Element element, const AttentionJob& job);
/// Writes the gradients.
void attend_backward_job(Element element, const AttentionJob& job);

}  // namespace weft
