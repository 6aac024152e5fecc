#include "weft/nn/images/channel_kernels.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/tensor_checks.h"

// The instructions that the kernels are compiled for a second time; which of the two runs is decided when the program does.
#if defined(__x86_64__)
#define WEFT_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#else
#define WEFT_AVX512
#endif
#define WEFT_INLINE inline __attribute__((always_inline))

namespace weft {

namespace {

// Vectors of eight channels, which the compiler maps to what the processor has.
constexpr int64_t kWidth = 8;
using Floats = float __attribute__((vector_size(kWidth * sizeof(float))));
using Doubles = double __attribute__((vector_size(kWidth * sizeof(double))));
using Words = uint32_t __attribute__((vector_size(kWidth * sizeof(uint32_t))));
using Halves = uint16_t __attribute__((vector_size(kWidth * sizeof(uint16_t))));
using Bfloat = c10::BFloat16;

/// The first `count` of eight values; the others are zero.
WEFT_INLINE void load(const float* from, int64_t count, Floats& to) {
  if (count == kWidth) {
    std::memcpy(&to, from, sizeof(to));
  } else {
    to = Floats{};
    std::memcpy(&to, from, static_cast<size_t>(count) * sizeof(float));
  }
}

WEFT_INLINE void load(const Bfloat* from, int64_t count, Floats& to) {
  Halves halves{};
  std::memcpy(&halves, from, static_cast<size_t>(count == kWidth ? kWidth : count) * sizeof(uint16_t));
  const Words words = __builtin_convertvector(halves, Words) << 16;
  std::memcpy(&to, &words, sizeof(to));
}

WEFT_INLINE void store(const Floats& from, int64_t count, float* to) {
  std::memcpy(to, &from, static_cast<size_t>(count == kWidth ? kWidth : count) * sizeof(float));
}

/// To the nearest, halves to even; what is no number stays none.
WEFT_INLINE void store(const Floats& from, int64_t count, Bfloat* to) {
  Words words;
  std::memcpy(&words, &from, sizeof(words));
  const Words rounded = (words + 0x7FFFU + ((words >> 16) & 1U)) >> 16;
  const Words none = Words{} + 0x7FC0U;
  const Halves halves = __builtin_convertvector((words & 0x7FFFFFFFU) > 0x7F800000U ? none : rounded, Halves);
  std::memcpy(to, &halves, static_cast<size_t>(count == kWidth ? kWidth : count) * sizeof(uint16_t));
}

WEFT_INLINE void widen(const Floats& from, Doubles& to) { to = __builtin_convertvector(from, Doubles); }

enum class Pass { sums, scale, gradient_sums, gradient };

/// Some rows (pixels) of tensors that lie as matrices of `channels` columns. Tensors that a pass does not need are null.
struct Rows {
  const void *x = nullptr, *dy = nullptr, *y = nullptr, *added = nullptr;
  void* out = nullptr;  ///< like x
  const float *mean = nullptr, *scale = nullptr, *slope = nullptr, *offset = nullptr;
  double *first = nullptr, *second = nullptr;  ///< sums of each channel
  bool relu = false;
  int64_t begin = 0, end = 0, channels = 0;
};

template <class T>
WEFT_INLINE T* at_place(void* base, int64_t place) {
  return base ? static_cast<T*>(base) + place : nullptr;
}
template <class T>
WEFT_INLINE const T* at_place(const void* base, int64_t place) {
  return base ? static_cast<const T*>(base) + place : nullptr;
}

template <class T>
WEFT_INLINE void sums(const Rows& r, int64_t channel, int64_t count) {
  Doubles first{}, second{};
  const T* x = at_place<T>(r.x, r.begin * r.channels + channel);
  for (int64_t row = r.begin; row < r.end; ++row, x += r.channels) {
    Floats value;
    Doubles wide;
    load(x, count, value);
    widen(value, wide);
    first += wide;
    second += wide * wide;
  }
  std::memcpy(r.first + channel, &first, static_cast<size_t>(count) * sizeof(double));
  std::memcpy(r.second + channel, &second, static_cast<size_t>(count) * sizeof(double));
}

template <class T>
WEFT_INLINE void scale(const Rows& r, int64_t channel, int64_t count) {
  Floats factor, offset;
  load(r.scale + channel, count, factor);
  load(r.offset + channel, count, offset);
  const int64_t place = r.begin * r.channels + channel;
  const T *x = at_place<T>(r.x, place), *added = at_place<T>(r.added, place);
  T* out = at_place<T>(r.out, place);
  for (int64_t row = r.begin; row < r.end; ++row, x += r.channels, out += r.channels) {
    Floats value;
    load(x, count, value);
    value = value * factor + offset;
    if (added) {
      Floats more;
      load(added, count, more);
      value += more;
      added += r.channels;
    }
    if (r.relu) value = value < 0.0F ? Floats{} : value;
    store(value, count, out);
  }
}

template <class T>
WEFT_INLINE void gradient_sums(const Rows& r, int64_t channel, int64_t count) {
  Doubles first{}, second{};
  Floats mean;
  load(r.mean + channel, count, mean);
  const int64_t place = r.begin * r.channels + channel;
  const T *x = at_place<T>(r.x, place), *dy = at_place<T>(r.dy, place), *y = at_place<T>(r.y, place);
  T* out = at_place<T>(r.out, place);
  for (int64_t row = r.begin; row < r.end; ++row, x += r.channels, dy += r.channels) {
    Floats g, value;
    Doubles wide, centred;
    load(dy, count, g);
    if (y) {
      load(y, count, value);
      g = value <= 0.0F ? Floats{} : g;
      y += r.channels;
    }
    if (out) {
      store(g, count, out);
      out += r.channels;
    }
    load(x, count, value);
    value -= mean;
    widen(g, wide);
    widen(value, centred);
    first += wide;
    second += wide * centred;
  }
  std::memcpy(r.first + channel, &first, static_cast<size_t>(count) * sizeof(double));
  std::memcpy(r.second + channel, &second, static_cast<size_t>(count) * sizeof(double));
}

template <class T>
WEFT_INLINE void gradient(const Rows& r, int64_t channel, int64_t count) {
  Floats mean, factor, slope, offset;
  load(r.mean + channel, count, mean);
  load(r.scale + channel, count, factor);
  load(r.slope + channel, count, slope);
  load(r.offset + channel, count, offset);
  const int64_t place = r.begin * r.channels + channel;
  const T *x = at_place<T>(r.x, place), *dy = at_place<T>(r.dy, place), *y = at_place<T>(r.y, place);
  T* out = at_place<T>(r.out, place);
  for (int64_t row = r.begin; row < r.end; ++row, x += r.channels, dy += r.channels, out += r.channels) {
    Floats g, value;
    load(dy, count, g);
    if (y) {
      load(y, count, value);
      g = value <= 0.0F ? Floats{} : g;
      y += r.channels;
    }
    load(x, count, value);
    store(g * factor + ((value - mean) * slope + offset), count, out);
  }
}

template <class T>
WEFT_INLINE void run_channels(Pass pass, const Rows& rows, int64_t channel, int64_t count) {
  switch (pass) {
    case Pass::sums:
      return sums<T>(rows, channel, count);
    case Pass::scale:
      return scale<T>(rows, channel, count);
    case Pass::gradient_sums:
      return gradient_sums<T>(rows, channel, count);
    case Pass::gradient:
      return gradient<T>(rows, channel, count);
  }
}

template <class T>
WEFT_INLINE void run_typed(Pass pass, const Rows& rows) {
  int64_t channel = 0;
  for (; channel + kWidth <= rows.channels; channel += kWidth) run_channels<T>(pass, rows, channel, kWidth);
  if (channel < rows.channels) run_channels<T>(pass, rows, channel, rows.channels - channel);
}

WEFT_AVX512 void run_wide(Pass pass, bool narrow, const Rows& rows) {
  narrow ? run_typed<Bfloat>(pass, rows) : run_typed<float>(pass, rows);
}

void run_plain(Pass pass, bool narrow, const Rows& rows) {
  narrow ? run_typed<Bfloat>(pass, rows) : run_typed<float>(pass, rows);
}

void run(Pass pass, bool narrow, const Rows& rows) {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
  if (wide) return run_wide(pass, narrow, rows);
#endif
  run_plain(pass, narrow, rows);
}

int64_t rows_in(const at::Tensor& x) { return x.size(0) * x.size(2) * x.size(3); }

constexpr int64_t kChunkRows = 256, kMostChunks = 64;

/// Calls run() for all rows, in chunks of which several may run at once: of(chunk, its Rows).
template <class Of>
void run_chunks(Pass pass, const at::Tensor& x, int64_t chunk_rows, const Of& of) {
  const int64_t rows = rows_in(x), chunks = (rows + chunk_rows - 1) / chunk_rows;
  parallel_for(chunks, pieces_worth_a_thread(chunk_rows * x.size(1)), [&](int64_t first, int64_t last) {
    for (int64_t chunk = first; chunk < last; ++chunk) {
      Rows own = of(chunk);
      own.begin = chunk * chunk_rows;
      own.end = std::min(rows, own.begin + chunk_rows);
      own.channels = x.size(1);
      run(pass, x.scalar_type() == at::kBFloat16, own);
    }
  });
}

/// Sums of all rows by the pass, which makes two of each channel: those of the chunks one after another.
at::Tensor sums_of(Pass pass, const at::Tensor& x, Rows rows) {
  const int64_t channels = x.size(1), of_rows = rows_in(x);
  const int64_t chunk_rows = std::max(kChunkRows, (of_rows + kMostChunks - 1) / kMostChunks);
  const int64_t chunks = (of_rows + chunk_rows - 1) / chunk_rows;
  const at::TensorOptions wide = x.options().dtype(at::kDouble).memory_format(at::MemoryFormat::Contiguous);
  const at::Tensor parts = at::zeros({std::max<int64_t>(chunks, 1), 2 * channels}, wide);
  if (x.is_meta() || of_rows == 0) return parts[0];
  auto* sums = parts.mutable_data_ptr<double>();
  run_chunks(pass, x, chunk_rows, [&](int64_t chunk) {
    Rows own = rows;
    own.first = sums + chunk * 2 * channels;
    own.second = own.first + channels;
    return own;
  });
  for (int64_t chunk = 1; chunk < chunks; ++chunk) {
    for (int64_t i = 0; i < 2 * channels; ++i) sums[i] += sums[chunk * 2 * channels + i];
  }
  return parts[0];
}

constexpr TensorChecks kCheck("batch norm by pixels");

/// x [n, channels, h, w] in the order that the passes read.
void check_pixels(const at::Tensor& x) {
  kCheck.floats("x", x, 4);
  const bool fits = (x.is_cpu() || x.is_meta()) && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) &&
                    x.dim() == 4 && x.is_contiguous(at::MemoryFormat::ChannelsLast);
  kCheck.that(fits, "x", x, "Float or BFloat16 [n, channels, h, w], channels last, on the CPU");
}

void check_like(const char* name, const at::Tensor& other, const at::Tensor& x) {
  kCheck.like(name, other, x);
  kCheck.that(other.is_contiguous(at::MemoryFormat::ChannelsLast), name, other, "channels last");
}

void check_of_channels(const char* name, const at::Tensor& values, const at::Tensor& x) {
  kCheck.sizes(name, values, {x.size(1)}, x);
  kCheck.that(values.scalar_type() == at::kFloat && values.is_contiguous(), name, values, "Float, contiguous");
}

void check_gradient(const ChannelGradient& gradient) {
  check_pixels(gradient.x);
  check_like("dy", gradient.dy, gradient.x);
  if (gradient.y.defined()) check_like("y", gradient.y, gradient.x);
  check_of_channels("mean", gradient.mean, gradient.x);
}

const void* values(const at::Tensor& x) { return x.defined() && !x.is_meta() ? x.const_data_ptr() : nullptr; }

}  // namespace

at::Tensor channel_sums(const at::Tensor& x) {
  check_pixels(x);
  return sums_of(Pass::sums, x, {.x = values(x)});
}

at::Tensor scale_channels(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& offset, const at::Tensor& added,
                          bool relu) {
  check_pixels(x);
  check_of_channels("scale", scale, x);
  check_of_channels("offset", offset, x);
  if (added.defined()) check_like("added", added, x);
  const at::Tensor y = at::empty_like(x);
  if (x.is_meta() || x.numel() == 0) return y;
  const Rows rows{.x = values(x),
                  .added = values(added),
                  .out = y.mutable_data_ptr(),
                  .scale = scale.const_data_ptr<float>(),
                  .offset = offset.const_data_ptr<float>(),
                  .relu = relu};
  run_chunks(Pass::scale, x, kChunkRows, [&](int64_t) { return rows; });
  return y;
}

at::Tensor gradient_sums(const ChannelGradient& gradient, const at::Tensor& kept) {
  check_gradient(gradient);
  if (kept.defined()) check_like("kept", kept, gradient.x);
  return sums_of(Pass::gradient_sums, gradient.x,
                 {.x = values(gradient.x),
                  .dy = values(gradient.dy),
                  .y = values(gradient.y),
                  .out = kept.defined() && !kept.is_meta() ? kept.mutable_data_ptr() : nullptr,
                  .mean = gradient.mean.is_meta() ? nullptr : gradient.mean.const_data_ptr<float>()});
}

void gradient_of_x(const at::Tensor& out, const ChannelGradient& gradient, const at::Tensor& scale, const at::Tensor& slope,
                   const at::Tensor& offset) {
  check_gradient(gradient);
  check_like("out", out, gradient.x);
  check_of_channels("scale", scale, out);
  check_of_channels("slope", slope, out);
  check_of_channels("offset", offset, out);
  if (out.is_meta() || out.numel() == 0) return;
  const Rows rows{.x = values(gradient.x),
                  .dy = values(gradient.dy),
                  .y = values(gradient.y),
                  .out = out.mutable_data_ptr(),
                  .mean = gradient.mean.const_data_ptr<float>(),
                  .scale = scale.const_data_ptr<float>(),
                  .slope = slope.const_data_ptr<float>(),
                  .offset = offset.const_data_ptr<float>()};
  run_chunks(Pass::gradient, gradient.x, kChunkRows, [&](int64_t) { return rows; });
}

}  // namespace weft
