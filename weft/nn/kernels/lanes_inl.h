// Vectors of floats, and sums that have the same bits in vectors of any width, for kernels in Highway: included like
// base/float_formats_inl.h.
#if defined(WEFT_NN_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_NN_KERNELS_LANES_INL_H_
#undef WEFT_NN_KERNELS_LANES_INL_H_
#else
#define WEFT_NN_KERNELS_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLanes = 16;  // partial sums of a row, whatever the width of vectors

using Tag = hn::CappedTag<float, kLanes>;
using Vector = hn::Vec<Tag>;

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(Tag())); }
HWY_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

HWY_INLINE void fill(float* to, int64_t count, float value) {
  for (int64_t i = 0; i < count; ++i) to[i] = value;
}

// The pairwise sum of kLanes partial sums.
HWY_INLINE float sum_of(const float* parts) {
  float sum[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) sum[i] = parts[i];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) sum[i] += sum[i + half];
  }
  return sum[0];
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
