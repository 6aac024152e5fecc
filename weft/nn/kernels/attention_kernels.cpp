#include "weft/nn/kernels/attention_kernels.h"

#include <cmath>

#include "weft/nn/kernels/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/nn/kernels/attention_kernels.cpp"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "weft/base/float_formats_inl.h"
#include "weft/nn/kernels/exponential_inl.h"
#include "weft/nn/kernels/lanes_inl.h"
#include "weft/nn/kernels/small_products_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {

constexpr int64_t kTile = 64;  // queries, and keys

template <class Format>
const typename Format::Stored* token_of(const HeadRows& rows, int64_t head, int64_t token) {
  return static_cast<const typename Format::Stored*>(rows.data) + head * rows.head + token * rows.token;
}

// Copies tokens [first, first + count) of a head times `scale` as rows of `padded` floats, then zeros up to `places` rows.
template <class Format>
void pack(const HeadRows& rows, int64_t head, int64_t first, int64_t count, int64_t width, float scale, int64_t padded,
          int64_t places, float* to) {
  const Tag d;
  const hn::CappedTag<float, 1> one;
  for (int64_t i = 0; i < places; ++i, to += padded) {
    int64_t k = 0;
    if (i < count) {
      const auto* from = token_of<Format>(rows, head, first + i);
      for (; k + lanes() <= width; k += lanes()) hn::StoreU(hn::Mul(Format::load(d, from + k), hn::Set(d, scale)), d, to + k);
      for (; k < width; ++k) hn::StoreU(hn::Mul(Format::load(one, from + k), hn::Set(one, scale)), one, to + k);
    }
    for (; k < padded; ++k) to[k] = 0.0F;
  }
}

// Copies rows [places, padded] as transposed tiles [padded, kTile] of kTile rows each.
void turn(const float* from, int64_t places, int64_t padded, float* to) {
  for (int64_t first = 0; first < places; first += kTile, from += kTile * padded, to += padded * kTile) {
    for (int64_t k = 0; k < padded; k += kSquare) {
      for (int64_t i = 0; i < kTile; i += kSquare) turn_square(from + i * padded + k, padded, to + k * kTile + i, kTile);
    }
  }
}

template <class Format>
void unpack(const float* from, int64_t padded, int64_t count, int64_t width, const HeadRows& rows, int64_t head,
            int64_t first) {
  const Tag d;
  const hn::CappedTag<float, 1> one;
  for (int64_t i = 0; i < count; ++i, from += padded) {
    auto* to = const_cast<typename Format::Stored*>(token_of<Format>(rows, head, first + i));
    int64_t k = 0;
    for (; k + lanes() <= width; k += lanes()) Format::store(d, hn::LoadU(d, from + k), to + k);
    for (; k < width; ++k) Format::store(one, hn::LoadU(one, from + k), to + k);
  }
}

// Position of a tile: queries from `query` against keys from `key`.
struct Tile {
  int64_t query, queries, key, keys;
};

// Computes a tile's scores, or gradients of its weights: a [rows, padded] times b [padded, kTile]. On the diagonal, skips those
// that no row of kLanes rows sees.
void multiply_tile(float* a, const float* b, float* scores, int64_t rows, int64_t padded, bool diagonal) {
  const int64_t step = diagonal ? kLanes : rows;
  for (int64_t i = 0; i < rows; i += step) {
    multiply({a + i * padded, padded, 1}, b, kTile, scores + i * kTile, kTile, least(step, rows - i),
             diagonal ? i + kLanes : kTile, padded, false);
  }
}

// Returns whether the tile lies on the diagonal of a causal mask, where a row sees keys up to its own position.
HWY_INLINE bool is_diagonal(const AttentionJob& job, const Tile& tile) { return job.causal && tile.key == tile.query; }

// Number of scores in a row of a tile.
HWY_INLINE int64_t columns_of(int64_t row, bool diagonal) { return diagonal ? round_up(row + 1, kLanes) : kTile; }

// Sets scores of keys hidden from the tile's row to minus infinity.
void hide(const AttentionJob& job, const Tile& tile, float* scores) {
  const bool diagonal = is_diagonal(job, tile);
  if (!diagonal && tile.keys == kTile) return;
  for (int64_t i = 0; i < kTile; ++i) {
    const int64_t seen = diagonal ? least(tile.keys, i + 1) : tile.keys;
    for (int64_t j = seen; j < columns_of(i, diagonal); ++j) scores[i * kTile + j] = -INFINITY;
  }
}

// Number of keys that any query of a block sees.
HWY_INLINE int64_t keys_seen(const AttentionJob& job, int64_t query, int64_t queries) {
  return job.causal ? least(job.keys, query + queries) : job.keys;
}

// The largest score so far and partial sums of the exponentials of a row, used to scale its output.
struct RowState {
  float largest[kTile];
  float sums[kTile * kLanes];
};

// Value to subtract from a row's scores: 0 if all are -inf, so that their exponentials are 0.
HWY_INLINE float none_if_infinite(float largest) { return largest == -INFINITY ? 0.0F : largest; }

// Turns scores into weights relative to the largest so far; if that has grown, rescales earlier sums.
void weigh(int64_t rows, bool diagonal, float* scores, RowState& state, float* out, int64_t padded) {
  const Tag d;
  const int64_t step = lanes();
  for (int64_t i = 0; i < rows; ++i, scores += kTile, out += padded) {
    const int64_t columns = columns_of(i, diagonal);
    auto most = hn::LoadU(d, scores);
    for (int64_t j = step; j < columns; j += step) most = hn::Max(most, hn::LoadU(d, scores + j));
    const float before = state.largest[i], found = hn::GetLane(hn::MaxOfLanes(d, most));
    const float now = found > before ? found : before;
    state.largest[i] = now;
    float* sums = state.sums + i * kLanes;
    if (now > before) {
      const auto factor = exponential(d, hn::Set(d, before - now));
      for (int64_t j = 0; j < kLanes; j += step) hn::StoreU(hn::Mul(hn::LoadU(d, sums + j), factor), d, sums + j);
      for (int64_t j = 0; j < padded; j += step) hn::StoreU(hn::Mul(hn::LoadU(d, out + j), factor), d, out + j);
    }
    const auto taken = hn::Set(d, none_if_infinite(now));
    for (int64_t j = 0; j < columns; j += step) {
      const auto weight = exponential(d, hn::Sub(hn::LoadU(d, scores + j), taken));
      hn::StoreU(weight, d, scores + j);
      float* sum = sums + j % kLanes;
      hn::StoreU(hn::Add(hn::LoadU(d, sum), weight), d, sum);
    }
  }
}

template <class Format>
void finish_rows(const AttentionJob& job, int64_t head, const Tile& tile, const RowState& state, float* out, int64_t padded) {
  const Tag d;
  for (int64_t i = 0; i < tile.queries; ++i) {
    const float sum = sum_of(state.sums + i * kLanes);
    const auto factor = hn::Set(d, sum == 0.0F ? 0.0F : 1.0F / sum);  // 0 if no score is above -inf, as in LibTorch
    for (int64_t j = 0; j < padded; j += lanes()) {
      float* at = out + i * padded + j;
      hn::StoreU(hn::Mul(hn::LoadU(d, at), factor), d, at);
    }
    static_cast<float*>(job.logsumexp.data)[head * job.logsumexp.head + (tile.query + i) * job.logsumexp.token] =
        state.largest[i] + logf(sum);
  }
  unpack<Format>(out, padded, tile.queries, job.width, job.out, head, tile.query);
}

// Pieces of a job's scratch, in order.
struct Scratch {
  float* next;

  float* take(int64_t count) {
    float* taken = next;
    next += count;
    return taken;
  }
};

template <class Format>
void forward(const AttentionJob& job) {
  const int64_t padded = round_up(job.width, kLanes), places = round_up(job.keys, kTile);
  Scratch scratch{job.scratch};
  float* values = scratch.take(places * padded);
  float* turned = scratch.take(places * padded);
  float* q = scratch.take(kTile * padded);
  float* out = scratch.take(kTile * padded);
  float* scores = scratch.take(kTile * kTile);
  pack<Format>(job.k, 0, 0, job.keys, job.width, 1.0F, padded, places, values);
  turn(values, places, padded, turned);
  pack<Format>(job.v, 0, 0, job.keys, job.width, 1.0F, padded, places, values);
  RowState state;
  int64_t turn_of = 0;
  for (int64_t head = 0; head < job.heads; ++head) {
    for (int64_t query = 0; query < job.queries; query += kTile) {
      if (turn_of++ % job.parts != job.part) continue;
      const int64_t queries = least(kTile, job.queries - query), rows = round_up(queries, kRows);
      pack<Format>(job.q, head, query, queries, job.width, job.scale, padded, rows, q);
      fill(out, rows * padded, 0.0F);
      fill(state.largest, kTile, -INFINITY);
      fill(state.sums, kTile * kLanes, 0.0F);
      Tile tile{query, queries, 0, 0};
      for (int64_t seen = keys_seen(job, query, queries); tile.key < seen; tile.key += kTile) {
        tile.keys = least(kTile, job.keys - tile.key);
        const bool diagonal = is_diagonal(job, tile);
        multiply_tile(q, turned + tile.key * padded, scores, rows, padded, diagonal);
        hide(job, tile, scores);
        weigh(rows, diagonal, scores, state, out, padded);
        multiply({scores, kTile, 1}, values + tile.key * padded, padded, out, padded, rows, padded, kTile, true,
                 diagonal ? Filled::lower : Filled::whole);
      }
      finish_rows<Format>(job, head, tile, state, out, padded);
    }
  }
}

struct RowSums {
  float logsumexp[kTile], taken[kTile];
};

// Computes a tile's weights from its scores, and the scores' gradients from the weights'; rows without a query are zero.
void weigh_backward(const Tile& tile, int64_t rows, bool diagonal, const RowSums& sums, float* scores, float* gradients) {
  const Tag d;
  for (int64_t i = 0; i < rows; ++i, scores += kTile, gradients += kTile) {
    if (i >= tile.queries) {
      fill(scores, kTile, 0.0F);
      fill(gradients, kTile, 0.0F);
      continue;
    }
    const auto logsumexp = hn::Set(d, none_if_infinite(sums.logsumexp[i])), taken = hn::Set(d, sums.taken[i]);
    for (int64_t j = 0; j < columns_of(i, diagonal); j += lanes()) {
      const auto weight = exponential(d, hn::Sub(hn::LoadU(d, scores + j), logsumexp));
      const auto gradient = hn::Mul(weight, hn::Sub(hn::LoadU(d, gradients + j), taken));
      hn::StoreU(weight, d, scores + j);
      hn::StoreU(gradient, d, gradients + j);
    }
  }
}

// The sum of each row's products of output and gradient, subtracted in the softmax's backward.
void sum_rows(const AttentionJob& job, int64_t head, const Tile& tile, const float* out, const float* dout, int64_t padded,
              RowSums& sums) {
  const Tag d;
  for (int64_t i = 0; i < tile.queries; ++i, out += padded, dout += padded) {
    float parts[kLanes];
    fill(parts, kLanes, 0.0F);
    for (int64_t j = 0; j < padded; j += lanes()) {
      float* part = parts + j % kLanes;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, out + j), hn::LoadU(d, dout + j), hn::LoadU(d, part)), d, part);
    }
    sums.taken[i] = sum_of(parts);
    sums.logsumexp[i] =
        static_cast<const float*>(job.logsumexp.data)[head * job.logsumexp.head + (tile.query + i) * job.logsumexp.token];
  }
}

// Data that all tiles of a job's backward read and write.
struct BackwardState {
  float *k, *turned_k, *turned_v, *dk, *dv;   // for all keys
  float *q, *dout, *dq, *scores, *gradients;  // for one tile
};

template <class Format>
void backward_block(const AttentionJob& job, int64_t head, Tile tile, const BackwardState& s, int64_t padded) {
  const int64_t rows = round_up(tile.queries, kRows);
  RowSums sums;
  pack<Format>(job.dout, head, tile.query, tile.queries, job.width, 1.0F, padded, rows, s.dout);
  pack<Format>(job.out, head, tile.query, tile.queries, job.width, 1.0F, padded, rows, s.dq);
  sum_rows(job, head, tile, s.dq, s.dout, padded, sums);
  pack<Format>(job.q, head, tile.query, tile.queries, job.width, job.scale, padded, rows, s.q);
  fill(s.dq, rows * padded, 0.0F);
  const bool of_queries = job.gradients != GradientsOf::keys;
  const bool of_keys = job.gradients != GradientsOf::queries;
  for (const int64_t seen = keys_seen(job, tile.query, tile.queries); tile.key < seen; tile.key += kTile) {
    if (!of_queries && tile.key / kTile % job.parts != job.part) continue;
    tile.keys = least(kTile, job.keys - tile.key);
    const int64_t first = tile.key * padded;
    const bool diagonal = is_diagonal(job, tile);
    multiply_tile(s.q, s.turned_k + first, s.scores, rows, padded, diagonal);
    hide(job, tile, s.scores);
    multiply_tile(s.dout, s.turned_v + first, s.gradients, rows, padded, diagonal);
    weigh_backward(tile, rows, diagonal, sums, s.scores, s.gradients);
    const Filled turned = diagonal ? Filled::upper : Filled::whole;
    if (of_keys) {
      multiply({s.scores, 1, kTile}, s.dout, padded, s.dv + first, padded, kTile, padded, rows, true, turned);
      multiply({s.gradients, 1, kTile}, s.q, padded, s.dk + first, padded, kTile, padded, rows, true, turned);
    }
    if (of_queries) {
      multiply({s.gradients, kTile, 1}, s.k + first, padded, s.dq, padded, rows, padded, kTile, true,
               diagonal ? Filled::lower : Filled::whole);
    }
  }
  if (!of_queries) return;
  for (int64_t i = 0; i < rows * padded; ++i) s.dq[i] *= job.scale;
  unpack<Format>(s.dq, padded, tile.queries, job.width, job.dq, head, tile.query);
}

template <class Format>
void backward(const AttentionJob& job) {
  const int64_t padded = round_up(job.width, kLanes), places = round_up(job.keys, kTile);
  Scratch scratch{job.scratch};
  BackwardState s;
  s.k = scratch.take(places * padded);
  s.turned_k = scratch.take(places * padded);
  s.turned_v = scratch.take(places * padded);
  s.dk = scratch.take(places * padded);
  s.dv = scratch.take(places * padded);
  s.q = scratch.take(kTile * padded);
  s.dout = scratch.take(kTile * padded);
  s.dq = scratch.take(kTile * padded);
  s.scores = scratch.take(kTile * kTile);
  s.gradients = scratch.take(kTile * kTile);
  pack<Format>(job.v, 0, 0, job.keys, job.width, 1.0F, padded, places, s.k);
  turn(s.k, places, padded, s.turned_v);
  pack<Format>(job.k, 0, 0, job.keys, job.width, 1.0F, padded, places, s.k);
  turn(s.k, places, padded, s.turned_k);
  const bool of_keys = job.gradients != GradientsOf::queries;
  for (float* gradient : {s.dk, s.dv}) {
    if (of_keys) fill(gradient, places * padded, 0.0F);
  }
  int64_t turn_of = 0;
  for (int64_t head = 0; head < job.heads; ++head) {
    for (int64_t query = 0; query < job.queries; query += kTile) {
      if (job.gradients == GradientsOf::queries && turn_of++ % job.parts != job.part) continue;
      backward_block<Format>(job, head, {query, least(kTile, job.queries - query), 0, 0}, s, padded);
    }
  }
  for (int64_t key = 0; of_keys && key < job.keys; key += kTile) {
    if (key / kTile % job.parts != job.part) continue;
    unpack<Format>(s.dk + key * padded, padded, least(kTile, job.keys - key), job.width, job.dk, 0, key);
    unpack<Format>(s.dv + key * padded, padded, least(kTile, job.keys - key), job.width, job.dv, 0, key);
  }
}

void attend(Element element, const AttentionJob& job) {
  element == Element::float32 ? forward<Plain<float>>(job) : forward<Brain>(job);
}

void attend_backward(Element element, const AttentionJob& job) {
  element == Element::float32 ? backward<Plain<float>>(job) : backward<Brain>(job);
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
namespace {
HWY_EXPORT(attend);
HWY_EXPORT(attend_backward);
}  // namespace

int64_t attention_tiles(int64_t tokens) { return (tokens + 63) / 64; }

int64_t attention_scratch(const AttentionJob& job, bool backward) {
  const int64_t tile = 64, padded = (job.width + 15) / 16 * 16, places = attention_tiles(job.keys) * tile;
  return (backward ? 5 : 2) * places * padded + (backward ? 3 : 2) * tile * padded + (backward ? 2 : 1) * tile * tile;
}

void attend_job(Element element, const AttentionJob& job) { HWY_DYNAMIC_DISPATCH(attend)(element, job); }
void attend_backward_job(Element element, const AttentionJob& job) { HWY_DYNAMIC_DISPATCH(attend_backward)(element, job); }

}  // namespace weft
#endif
