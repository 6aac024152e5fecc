#include "weft/nn/random.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/philox.h"
#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/device_kernels/device_kernels.h"
#include "weft/nn/kernel_record.h"
#include "weft/nn/operators_path.h"
#include "weft/nn/target_scope.h"
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
  for (int64_t b = 0; b < kBlocks; ++b) {
    const PhiloxBlock block = philox_block(key.seed, key.stream, first + static_cast<uint64_t>(b));
    for (int l = 0; l < 4; ++l) out.word[l][b] = block.word[l];
  }
}

/// Converts two rows of uniform words to two rows of standard normal numbers (Box and Muller 1958).
void box_muller(const uint32_t* radius_word, const uint32_t* angle_word, float* out0, float* out1) {
  float radius[kBlocks];
  for (int64_t b = 0; b < kBlocks; ++b) radius[b] = squared_radius(radius_word[b]);
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

uint32_t threshold_of(double p) { return static_cast<uint32_t>(std::min(std::llround(p * 0x1p32), (1LL << 32) - 1)); }

/// Mask of the dropped elements of x, on the CPU or the meta device; not drawn on the latter.
at::Tensor drop_mask(const at::Tensor& x, double p, RandomKey key, const std::vector<ElementRun>& runs) {
  const at::Tensor dropped = at::empty(x.sizes(), x.options().dtype(at::kBool).memory_format(at::MemoryFormat::Contiguous));
  const KernelRecord record("weft::drop", {dropped});
  if (x.is_meta()) return dropped;
  const uint32_t threshold = threshold_of(p);
  bool* to = dropped.mutable_data_ptr<bool>();
  for (const ElementRun& run : runs) {
    generate(key, run.first, run.numel, to, [&](const Lanes& lanes, bool(&rows)[4][kBlocks]) {
      for (int64_t l = 0; l < 4; ++l) {
        for (int64_t b = 0; b < kBlocks; ++b) rows[l][b] = p == 1 || lanes.word[l][b] < threshold;
      }
    });
    to += run.numel;
  }
  return dropped;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Dropout by a kernel of the device, which draws the mask again in backward: nothing is kept.
struct DrawnDropout : torch::autograd::Function<DrawnDropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double p, int64_t seed, int64_t stream,
                            const std::optional<at::Tensor>& place, int64_t per_sample, std::vector<int64_t> firsts,
                            std::vector<int64_t> numels) {
    context->saved_data["p"] = p;
    context->saved_data["seed"] = seed;
    context->saved_data["stream"] = stream;
    if (place) context->saved_data["place"] = *place;
    context->saved_data["per_sample"] = per_sample;
    context->saved_data["firsts"] = firsts;
    context->saved_data["numels"] = numels;
    return drop_elements(x, {.scale = scale_of(p),
                             .threshold = threshold_of(p),
                             .all = p == 1,
                             .seed = static_cast<uint64_t>(seed),
                             .stream = static_cast<uint64_t>(stream),
                             .firsts = std::move(firsts),
                             .numels = std::move(numels),
                             .place = place.value_or(at::Tensor()),
                             .per_sample = per_sample});
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto& of = context->saved_data;
    const auto place = of.count("place") > 0 ? std::optional(of["place"].toTensor()) : std::nullopt;
    return {DrawnDropout::apply(gradients.front(), of["p"].toDouble(), of["seed"].toInt(), of["stream"].toInt(), place,
                                of["per_sample"].toInt(), of["firsts"].toIntVector(), of["numels"].toIntVector()),
            {},
            {},
            {},
            {},
            {},
            {},
            {}};
  }

  static double scale_of(double p) { return p == 1 ? 0.0 : 1 / (1 - p); }
};

/// Whether the slice's device draws its numbers.
bool draws_in_place(const at::Tensor& slice) { return !slice.is_cpu() && !slice.is_meta() && slice.is_contiguous(); }

}  // namespace

RandomKey random_key(uint64_t seed, std::string_view name, int64_t step) {
  return {seed, stream_at(splitmix64(fnv1a(name)), step)};
}

PlacedKey placed_key(uint64_t seed, std::string_view name, const at::Tensor& place, int64_t per_sample) {
  return {seed, splitmix64(fnv1a(name)), place, per_sample};
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
  if (draws_in_place(slice)) return draw_numbers(slice, {true, key.seed, key.stream, first_element, shift, scale});
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
  if (draws_in_place(slice)) return draw_numbers(slice, {false, key.seed, key.stream, first_element, shift, scale});
  fill(slice, [&](float* out) {
    generate(key, first_element, slice.numel(), out, [&](const Lanes& lanes, float(&rows)[4][kBlocks]) {
      for (int64_t l = 0; l < 4; ++l) {
        for (int64_t b = 0; b < kBlocks; ++b) {
          rows[l][b] = shift + scale * uniform_of(lanes.word[l][b]);
        }
      }
    });
  });
}

at::Tensor dropout(const at::Tensor& x, double p, RandomKey key, int64_t first_element) {
  TensorChecks("dropout").floats("x", x);
  return dropout(x, p, key, std::vector<ElementRun>{{first_element, x.numel()}});
}

namespace {

/// Whether anything is dropped.
bool check_dropout(const at::Tensor& x, double p, const std::vector<ElementRun>& runs) {
  TensorChecks("dropout").floats("x", x);
  check_runs(x, runs);
  if (!(p >= 0 && p <= 1)) throw InputError(fmt::format("dropout: p = {}; it must be in [0, 1]", p));
  return p > 0;
}

at::Tensor drop(const at::Tensor& x, double p, const PlacedKey& key, const std::vector<ElementRun>& runs) {
  std::vector<int64_t> firsts, numels;
  for (const ElementRun& run : runs) {
    firsts.push_back(run.first);
    numels.push_back(run.numel);
  }
  return DrawnDropout::apply(x, p, static_cast<int64_t>(key.seed), static_cast<int64_t>(key.name),
                             key.place.defined() ? std::optional(key.place) : std::nullopt, key.per_sample, std::move(firsts),
                             std::move(numels));
}

}  // namespace

at::Tensor placed_dropout(const at::Tensor& x, double p, const PlacedKey& key, const std::vector<ElementRun>& runs) {
  if (!check_dropout(x, p, runs)) return x;
  const TensorChecks check("dropout");
  check.that(
      key.place.scalar_type() == at::kLong && key.place.sizes() == at::IntArrayRef{2} && key.place.device() == x.device(),
      "place", key.place, "int64 [2] on the device of x");
  return drop(x, p, key, runs);
}

at::Tensor dropout(const at::Tensor& x, double p, RandomKey key, const std::vector<ElementRun>& runs) {
  if (!check_dropout(x, p, runs)) return x;
  if (target_of(x.device()) != TargetDevice::cpu || (x.is_cpu() && forces_operators())) {
    return drop(x, p, {.seed = key.seed, .name = key.stream, .place = {}, .per_sample = 0}, runs);
  }
  const at::Tensor dropped = drop_mask(x, p, key, runs);
  // Scaling keeps no tensor for backward, and the fill keeps only the mask.
  return at::mul(x, p == 1 ? 0.0 : 1 / (1 - p)).masked_fill_(dropped, 0);
}

}  // namespace weft
