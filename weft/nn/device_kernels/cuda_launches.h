// Launches of the kernels in cuda_kernels.cu, which sees no header of LibTorch but its element types. Each is given its stream.
#pragma once

#include <cstdint>

namespace weft {

/// Type of elements.
enum class CudaElement { float32, float64, bfloat16, float16 };

/// Ranges that one launch takes: they travel as arguments, of at most 4 KiB.
struct CudaRanges {
  static constexpr int kMost = 128;
  const void* data[kMost] = {};
  int64_t numel[kMost] = {};
  int32_t before[kMost] = {};  ///< elements of the first run that come before the range
  int32_t row[kMost] = {};     ///< of its sum, if each has one
  int count = 0;
};

/// A cudaStream_t.
using CudaStream = void*;

/// As in device_kernels.h; return a cudaError_t.
int cuda_add_squares(CudaElement element, const CudaRanges& ranges, int64_t* words, CudaStream stream);
int cuda_add_squares_each(CudaElement element, const CudaRanges& ranges, int64_t* sums, CudaStream stream);
int cuda_raise_to_largest(CudaElement element, const CudaRanges& ranges, int64_t* most, CudaStream stream);
int cuda_carry_words(int64_t* words, CudaStream stream);

/// Where cuda_put_losses() writes, and what.
struct CudaLosses {
  double* losses = nullptr;
  int64_t places = 0, place = 0;
  const void* sum = nullptr;
  const int64_t* counted = nullptr;  ///< null: `count`
  int64_t count = 0;
  double nominal = 0.0;
};
int cuda_put_losses(CudaElement element, const CudaLosses& losses, CudaStream stream);

/// What cuda_clamp_ids() reads and writes.
struct CudaIds {
  const void* ids = nullptr;
  void* safe = nullptr;
  int64_t* found = nullptr;
  int64_t numel = 0, count = 0, ignored = 0;
  bool has_ignored = false, is_wide = true;  ///< int64; otherwise int32
};
int cuda_clamp_ids(const CudaIds& ids, CudaStream stream);
int cuda_spoil_losses(double* losses, int64_t numel, const int64_t* found, int64_t num_found, CudaStream stream);

struct StepFacts;
struct StepBuffers;
int cuda_step_numbers(const StepFacts& facts, const StepBuffers& memory, CudaStream stream);

/// As in update_kernels.h.
struct CudaTrust {
  const int64_t* squares = nullptr;
  const double* decays = nullptr;
  const double* divisor = nullptr;
  float* ratios = nullptr;
  int64_t count = 0;
};
struct TrustRule;
int cuda_trust_ratios(const TrustRule& rule, const CudaTrust& all, CudaStream stream);
int cuda_bias_corrections(const float* rate, int64_t later, double beta1, double beta2, float* corrections, CudaStream stream);

struct FactoredRule;
struct FactoredBuffers;
int cuda_factored_numbers(const FactoredRule& rule, double known_lr, int64_t later, const FactoredBuffers& memory,
                          CudaStream stream);
/// `divisors` may be null.
int cuda_subtract_scaled(float* weights, const float* values, const float* divisors, int64_t numel, const float* rate,
                         CudaStream stream);

/// Parts that one launch of cuda_scale_parts() takes.
struct CudaParts {
  static constexpr int kMost = 128;
  int64_t begin[kMost] = {};
  int64_t end[kMost] = {};
  int32_t row[kMost] = {};
  int count = 0;
};
int cuda_scale_parts(float* values, const CudaParts& parts, const float* factors, CudaStream stream);

/// Runs of elements that one launch of cuda_drop() takes.
struct CudaRuns {
  static constexpr int kMost = 128;
  int64_t begin[kMost] = {};  ///< first element of the run in x
  int64_t first[kMost] = {};  ///< its index in the stream
  int count = 0;
  int64_t end = 0;  ///< element of x after the last run
};
/// Where cuda_drop() reads and writes, and what it drops.
struct CudaDropped {
  const void* x = nullptr;
  void* y = nullptr;
  uint64_t seed = 0, stream = 0;
  const int64_t* place = nullptr;  ///< as in PlacedStream
  int64_t per_sample = 0;
  uint32_t threshold = 0;
  bool all = false;
  double scale = 1.0;
};
int cuda_drop(CudaElement element, const CudaDropped& dropped, const CudaRuns& runs, CudaStream stream);

/// What cuda_draw() writes.
struct CudaDrawn {
  void* to = nullptr;
  int64_t numel = 0, first = 0;
  uint64_t seed = 0, stream = 0;
  bool is_normal = false;
  float shift = 0.0f, scale = 1.0f;
};
int cuda_draw(CudaElement element, const CudaDrawn& drawn, CudaStream stream);

}  // namespace weft
