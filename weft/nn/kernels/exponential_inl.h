// exponential: e to the x of a vector, for kernels in Highway: included as base/float_formats_inl.h is.
#if defined(WEFT_NN_KERNELS_EXPONENTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_NN_KERNELS_EXPONENTIAL_INL_H_
#undef WEFT_NN_KERNELS_EXPONENTIAL_INL_H_
#else
#define WEFT_NN_KERNELS_EXPONENTIAL_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// To 1 unit in the last place, for x up to 88; 0 below -104. What is no number stays none, which Highway's own makes 0.
template <class D>
HWY_INLINE hn::Vec<D> exponential(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

// x within `far` of 0; what is no number stays none, which Clamp alone leaves open.
template <class D>
HWY_INLINE hn::Vec<D> near_zero(D d, hn::Vec<D> x, float far) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Clamp(x, hn::Set(d, -far), hn::Set(d, far)));
}

// y, and 0 where x is below -`far`.
template <class D>
HWY_INLINE hn::Vec<D> unless_far_below(D d, hn::Vec<D> x, float far, hn::Vec<D> y) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -far)), y);
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
