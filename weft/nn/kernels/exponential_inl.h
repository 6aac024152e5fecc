// exponential: e to the x for vectors, in Highway kernels; included like base/float_formats_inl.h.
#if defined(WEFT_NN_KERNELS_EXPONENTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_NN_KERNELS_EXPONENTIAL_INL_H_
#undef WEFT_NN_KERNELS_EXPONENTIAL_INL_H_
#else
#define WEFT_NN_KERNELS_EXPONENTIAL_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Returns e^x to 1 unit in the last place for x up to 88, and 0 below -87.3, where floats lose digits. NaN stays NaN.
//
// x is n ln 2 + r with |r| at most half of ln 2. A polynomial gives e^r (Moshier, Cephes, expf), the exponent bits give 2^n.
// Adding 1.5 2^23 rounds to n and leaves n in the lowest bits.
template <class D>
HWY_INLINE hn::Vec<D> exponential(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> whole;
  const auto rounded = hn::MulAdd(x, hn::Set(d, 1.44269504F), hn::Set(d, 12582912.0F));
  const auto n = hn::Sub(rounded, hn::Set(d, 12582912.0F));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  auto p = hn::MulAdd(hn::Set(d, 1.9875691500e-4F), r, hn::Set(d, 1.3981999507e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1F));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0F));
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(whole, rounded), hn::Set(whole, 127)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3F)), hn::Mul(p, hn::BitCast(d, power)));
}

// Limits x from below or above. NaN stays NaN, which Min and Max do not guarantee.
template <class D>
HWY_INLINE hn::Vec<D> at_least(D d, hn::Vec<D> x, float limit) {
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, limit)), hn::Set(d, limit), x);
}
template <class D>
HWY_INLINE hn::Vec<D> at_most(D d, hn::Vec<D> x, float limit) {
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, limit)), hn::Set(d, limit), x);
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
