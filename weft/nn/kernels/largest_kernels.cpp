#include "weft/nn/kernels/largest_kernels.h"

#include "weft/nn/kernels/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/nn/kernels/largest_kernels.cpp"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// The largest of the bits as integers. Four independent maxima avoid waiting for the previous one.
int32_t largest(const float* values, int64_t count) {
  const hn::ScalableTag<float> floats;
  const hn::RebindToSigned<decltype(floats)> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto at = [&](int64_t i) { return hn::BitCast(d, hn::Abs(hn::LoadU(floats, values + i))); };
  auto a = hn::Zero(d), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Max(a, at(i));
    b = hn::Max(b, at(i + lanes));
    c = hn::Max(c, at(i + 2 * lanes));
    e = hn::Max(e, at(i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) a = hn::Max(a, at(i));
  int32_t most = hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(a, b), hn::Max(c, e))));
  const hn::CappedTag<float, 1> one;
  const hn::RebindToSigned<decltype(one)> whole;
  for (; i < count; ++i) {
    const int32_t last = hn::GetLane(hn::BitCast(whole, hn::Abs(hn::LoadU(one, values + i))));
    most = last > most ? last : most;
  }
  return most;
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
namespace {
HWY_EXPORT(largest);
}  // namespace

int32_t largest_magnitude(const float* values, int64_t count) { return HWY_DYNAMIC_DISPATCH(largest)(values, count); }

}  // namespace weft
#endif
