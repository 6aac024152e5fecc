#include "weft/nn/random.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/tensor_checks.h"

namespace weft {
namespace {

/// Blocks drawn at once: enough for the compiler's vectors, small enough for the L1 cache.
constexpr int64_t kBlocks = 64;
constexpr int64_t kWords = 4 * kBlocks;

struct Lanes {
  uint32_t word[4][kBlocks];
};

/// Blocks first, first + 1, ..., in structure-of-arrays order, so that the loop over blocks vectorises.
void philox_lanes(RandomKey key, uint64_t first, Lanes& out) {
  constexpr uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int64_t b = 0; b < kBlocks; ++b) {
    const uint64_t counter = first + static_cast<uint64_t>(b);
    uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
    uint32_t c2 = static_cast<uint32_t>(key.stream), c3 = static_cast<uint32_t>(key.stream >> 32);
    uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = kMultiply0 * c0, product1 = kMultiply1 * c2;
      c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(product1);
      c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(product0);
      k0 += kWeyl0;
      k1 += kWeyl1;
    }
    out.word[0][b] = c0;
    out.word[1][b] = c1;
    out.word[2][b] = c2;
    out.word[3][b] = c3;
  }
}

// Note: the two polynomials below give the same bits everywhere as long as the compiler does not contract a * b + c into one
// operation, which it may if the target has one (aarch64, -march=native): -ffp-contract=off. A test pins the bits.

/// ln u for u in (0, 1]: Cephes' logf, without its branches.
inline float log_of(float u) {
  constexpr uint32_t kSqrtHalf = 0x3f3504f3;
  const uint32_t bits = std::bit_cast<uint32_t>(u) + (0x3f800000 - kSqrtHalf);
  const auto exponent = static_cast<float>(static_cast<int32_t>(bits >> 23) - 127);
  const float x = std::bit_cast<float>((bits & 0x7fffff) + kSqrtHalf) - 1.0f;
  const float z = x * x;
  float y = 7.0376836292e-2f;
  y = y * x - 1.1514610310e-1f;
  y = y * x + 1.1676998740e-1f;
  y = y * x - 1.2420140846e-1f;
  y = y * x + 1.4249322787e-1f;
  y = y * x - 1.6668057665e-1f;
  y = y * x + 2.0000714765e-1f;
  y = y * x - 2.4999993993e-1f;
  y = y * x + 3.3333331174e-1f;
  y = y * x * z + exponent * -2.12194440e-4f - 0.5f * z;
  return x + y + exponent * 0.693359375f;
}

/// Cosine and sine of 2 pi turn / 2^32: the nearest quarter turn exactly, the rest by Cephes' polynomials on [-pi/4, pi/4].
inline void cos_sin(uint32_t turn, float& cosine, float& sine) {
  const uint32_t quarter = (turn + (1u << 29)) >> 30;
  const auto rest = static_cast<float>(static_cast<int32_t>(turn - (quarter << 30)));
  const float x = rest * (1.57079632679f / (1 << 30));
  const float z = x * x;
  const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
  const float c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
  const uint32_t odd = 0u - (quarter & 1), s_bits = std::bit_cast<uint32_t>(s), c_bits = std::bit_cast<uint32_t>(c);
  const uint32_t cosine_bits = (c_bits & ~odd) | (s_bits & odd), sine_bits = (s_bits & ~odd) | (c_bits & odd);
  cosine = std::bit_cast<float>(cosine_bits ^ (((quarter + 1) & 2) << 30));
  sine = std::bit_cast<float>(sine_bits ^ ((quarter & 2) << 30));
}

/// Converts two rows of uniform words to two rows of standard normal numbers (Box and Muller 1958).
void box_muller(const uint32_t* radius_word, const uint32_t* angle_word, float* out0, float* out1) {
  float radius[kBlocks];
  for (int64_t b = 0; b < kBlocks; ++b) {
    // Range (0, 1]: the half keeps zero away from the logarithm.
    const float u = (static_cast<float>(static_cast<int32_t>(radius_word[b] >> 1)) + 0.5f) * 0x1p-31f;
    radius[b] = -2.0f * log_of(u);
  }
  for (int64_t b = 0; b < kBlocks; ++b) radius[b] = std::sqrt(radius[b]);
  for (int64_t b = 0; b < kBlocks; ++b) {
    float cosine, sine;
    cos_sin(angle_word[b], cosine, sine);
    out0[b] = radius[b] * cosine;
    out1[b] = radius[b] * sine;
  }
}

/// Minimum elements per thread: some microseconds of work.
constexpr int64_t kGrain = 16 * kWords;

/// Writes elements [first, first + count) of the stream to `out`, on one thread, each made from its Lanes by `convert(lanes,
/// rows)`, where rows[l][b] is element 4 b + l.
template <typename T, typename Convert>
void generate_part(RandomKey key, int64_t first, int64_t count, T* out, const Convert& convert) {
  Lanes lanes;
  T rows[4][kBlocks], values[kWords];
  for (int64_t done = 0; done < count;) {
    const int64_t block = (first + done) / 4, skip = (first + done) % 4;
    philox_lanes(key, static_cast<uint64_t>(block), lanes);
    convert(lanes, rows);
    const int64_t take = std::min(kWords - skip, count - done);
    T* to = take == kWords ? out + done : values;
    for (int64_t b = 0; b < kBlocks; ++b) {
      for (int64_t l = 0; l < 4; ++l) to[4 * b + l] = rows[l][b];
    }
    if (to == values) std::copy_n(values + skip, take, out + done);
    done += take;
  }
}

/// The same on several threads: a number depends only on its position.
template <typename T, typename Convert>
void generate(RandomKey key, int64_t first, int64_t count, T* out, const Convert& convert) {
  parallel_for(count, kGrain,
               [&](int64_t begin, int64_t end) { generate_part(key, first + begin, end - begin, out + begin, convert); });
}

void check_first(int64_t first_element, int64_t count) {
  if (first_element < 0) throw InputError(fmt::format("random: first element {} is negative", first_element));
  if (first_element <= std::numeric_limits<int64_t>::max() - kWords - count) return;
  throw InputError(fmt::format("random: {} elements from index {} exceed the index range", count, first_element));
}

void check_slice(const at::Tensor& slice, int64_t first_element) {
  const TensorChecks check("random");
  check.dense("slice", slice);
  check.that(at::has_internal_overlap(slice) != at::MemOverlap::Yes, "slice", slice, "a tensor whose elements share no memory");
  check_first(first_element, slice.numel());
}

/// Throws InputError unless the runs have as many elements as x.
void check_runs(const at::Tensor& x, const std::vector<ElementRun>& runs) {
  int64_t left = x.numel();
  for (const ElementRun& run : runs) {
    if (run.numel < 0 || run.numel > left) {
      throw InputError(
          fmt::format("dropout: a run of {} elements, but only {} are left of x, {}", run.numel, left, type_and_shape(x)));
    }
    check_first(run.first, run.numel);
    left -= run.numel;
  }
  if (left > 0) throw InputError(fmt::format("dropout: the runs lack {} elements of x, {}", left, type_and_shape(x)));
}

/// Runs draw(float*) on the slice's memory if it is plain float32, otherwise on a copy that is then converted. On the meta
/// device nothing is drawn.
template <typename Draw>
void fill(const at::Tensor& slice, const Draw& draw) {
  if (slice.is_meta()) return;
  if (slice.is_cpu() && slice.scalar_type() == at::kFloat && slice.is_contiguous()) {
    draw(static_cast<float*>(slice.mutable_data_ptr()));
    return;
  }
  const at::NoGradGuard no_grad;
  at::Tensor drawn = at::empty(slice.sizes(), at::kFloat);
  draw(drawn.mutable_data_ptr<float>());
  slice.copy_(drawn);
}

/// Mask of the dropped elements of x, on its device; not drawn on the meta device.
at::Tensor drop_mask(const at::Tensor& x, double p, RandomKey key, const std::vector<ElementRun>& runs) {
  if (x.is_meta()) return at::empty(x.sizes(), x.options().dtype(at::kBool));
  const auto threshold = static_cast<uint32_t>(std::min(std::llround(p * 0x1p32), (1LL << 32) - 1));
  const at::Tensor dropped = at::empty(x.sizes(), at::kBool);
  bool* to = dropped.mutable_data_ptr<bool>();
  for (const ElementRun& run : runs) {
    generate(key, run.first, run.numel, to, [&](const Lanes& lanes, bool(&rows)[4][kBlocks]) {
      for (int64_t l = 0; l < 4; ++l) {
        for (int64_t b = 0; b < kBlocks; ++b) rows[l][b] = p == 1 || lanes.word[l][b] < threshold;
      }
    });
    to += run.numel;
  }
  return dropped.to(x.device());
}

}  // namespace

RandomKey random_key(uint64_t seed, std::string_view name, int64_t step) {
  return {seed, splitmix64(splitmix64(fnv1a(name)) ^ static_cast<uint64_t>(step))};
}

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  const auto wide = [](uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; };
  Lanes lanes;
  philox_lanes({wide(key[0], key[1]), wide(counter[2], counter[3])}, wide(counter[0], counter[1]), lanes);
  return {lanes.word[0][0], lanes.word[1][0], lanes.word[2][0], lanes.word[3][0]};
}

void fill_normal(const at::Tensor& slice, RandomKey key, int64_t first_element, double mean, double stddev) {
  check_slice(slice, first_element);
  const auto shift = static_cast<float>(mean), scale = static_cast<float>(stddev);
  fill(slice, [&](float* out) {
    generate(key, first_element, slice.numel(), out, [&](const Lanes& lanes, float(&rows)[4][kBlocks]) {
      box_muller(lanes.word[0], lanes.word[1], rows[0], rows[1]);
      box_muller(lanes.word[2], lanes.word[3], rows[2], rows[3]);
      for (auto& row : rows) {
        for (float& value : row) value = shift + scale * value;
      }
    });
  });
}

void fill_uniform(const at::Tensor& slice, RandomKey key, int64_t first_element, double low, double high) {
  check_slice(slice, first_element);
  const auto shift = static_cast<float>(low), scale = static_cast<float>(high - low);
  fill(slice, [&](float* out) {
    generate(key, first_element, slice.numel(), out, [&](const Lanes& lanes, float(&rows)[4][kBlocks]) {
      for (int64_t l = 0; l < 4; ++l) {
        for (int64_t b = 0; b < kBlocks; ++b) {
          const float u = static_cast<float>(static_cast<int32_t>(lanes.word[l][b] >> 8)) * 0x1p-24f;
          rows[l][b] = shift + scale * u;
        }
      }
    });
  });
}

at::Tensor dropout(const at::Tensor& x, double p, RandomKey key, int64_t first_element) {
  TensorChecks("dropout").floats("x", x);
  return dropout(x, p, key, std::vector<ElementRun>{{first_element, x.numel()}});
}

at::Tensor dropout(const at::Tensor& x, double p, RandomKey key, const std::vector<ElementRun>& runs) {
  TensorChecks("dropout").floats("x", x);
  check_runs(x, runs);
  if (!(p >= 0 && p <= 1)) throw InputError(fmt::format("dropout: p = {}; it must be in [0, 1]", p));
  if (p == 0) return x;
  const at::Tensor dropped = drop_mask(x, p, key, runs);
  // Scaling keeps no tensor for backward, and the fill keeps only the mask.
  return at::mul(x, p == 1 ? 0.0 : 1 / (1 - p)).masked_fill_(dropped, 0);
}

}  // namespace weft
