// Loop of a kernel over contiguous elements: whole vectors, then the rest one by one, which does not change the bits of an
// element-wise result. Included like base/float_formats_inl.h.
#if defined(WEFT_NN_KERNELS_IN_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_NN_KERNELS_IN_VECTORS_INL_H_
#undef WEFT_NN_KERNELS_IN_VECTORS_INL_H_
#else
#define WEFT_NN_KERNELS_IN_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "weft/base/float_formats_inl.h"
#include "weft/nn/kernels/element.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Calls Pass::apply(d, arguments..., place) for places 0 to count - 1, as many at once as tag d has lanes.
template <class Pass, class... Arguments>
HWY_INLINE void in_vectors(int64_t count, const Arguments&... arguments) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t place = 0;
  for (; place + lanes <= count; place += lanes) Pass::apply(d, arguments..., place);
  for (; place < count; ++place) Pass::apply(one, arguments..., place);
}

// The same for the elements of `rows`, in the given format.
template <template <class> class Pass, class Rows>
HWY_INLINE void in_vectors_of(Element element, const Rows& rows) {
  element == Element::float32 ? in_vectors<Pass<Plain<float>>>(rows.count, rows) : in_vectors<Pass<Brain>>(rows.count, rows);
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
