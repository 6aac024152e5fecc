#include "weft/nn/kernels/gelu_kernels.h"

#include "weft/nn/kernels/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/nn/kernels/gelu_kernels.cpp"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "weft/base/float_formats_inl.h"
#include "weft/nn/kernels/exponential_inl.h"
#include "weft/nn/kernels/in_vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {

constexpr float kTwoRoots = 1.5957691216057308F;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

// Beyond +-kFar, GELU is x or below 1e-36, and its gradient 1 or zero; exp(-2 z) would overflow below -kFar.
constexpr float kFar = 10.0F;

// exp(-2 z) for x of at least -kFar.
template <class D>
HWY_INLINE hn::Vec<D> power_of(D d, hn::Vec<D> x, hn::Vec<D> square) {
  const auto slope = hn::MulAdd(square, hn::Set(d, -kTwoRoots * kCubic), hn::Set(d, -kTwoRoots));
  return exponential(d, hn::Mul(x, slope));
}

template <class Format>
struct Forward {
  template <class D>
  static HWY_INLINE void apply(D d, const GeluRows& r, int64_t place) {
    using Stored = typename Format::Stored;
    const auto x = Format::load(d, static_cast<const Stored*>(r.x) + place);
    const auto near = at_least(d, x, -kFar);
    const auto sum = hn::Add(hn::Set(d, 1.0F), power_of(d, near, hn::Mul(near, near)));
    Format::store(d, hn::Mul(near, hn::Div(hn::Set(d, 1.0F), sum)), static_cast<Stored*>(r.y) + place);
  }
};

// With s = sigmoid(2 z): dx = dy (s + x s (1 - s) 2 z'), where 1 - s is exp(-2 z) s.
template <class Format>
struct Backward {
  template <class D>
  static HWY_INLINE void apply(D d, const GeluRows& r, int64_t place) {
    using Stored = typename Format::Stored;
    const auto x = Format::load(d, static_cast<const Stored*>(r.x) + place);
    const auto low = at_least(d, x, -kFar), near = at_most(d, low, kFar), square = hn::Mul(near, near);
    const auto dy = Format::load(d, static_cast<const Stored*>(r.dy) + place);
    const auto power = power_of(d, near, square);
    const auto s = hn::Div(hn::Set(d, 1.0F), hn::Add(hn::Set(d, 1.0F), power));
    const auto slope = hn::MulAdd(square, hn::Set(d, 3.0F * kTwoRoots * kCubic), hn::Set(d, kTwoRoots));
    // power may be huge where s is tiny: multiply them first, which gives 1 - s.
    const auto derivative = hn::MulAdd(hn::Mul(hn::Mul(near, s), hn::Mul(power, s)), slope, s);
    if (r.y) Format::store(d, hn::Mul(low, s), static_cast<Stored*>(r.y) + place);
    Format::store(d, hn::Mul(dy, derivative), static_cast<Stored*>(r.dx) + place);
  }
};

void forward(Element element, const GeluRows& rows) { in_vectors_of<Forward>(element, rows); }
void backward(Element element, const GeluRows& rows) { in_vectors_of<Backward>(element, rows); }

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
namespace {
HWY_EXPORT(forward);
HWY_EXPORT(backward);
}  // namespace

void gelu_rows(Element element, const GeluRows& rows) { HWY_DYNAMIC_DISPATCH(forward)(element, rows); }
void gelu_backward_rows(Element element, const GeluRows& rows) { HWY_DYNAMIC_DISPATCH(backward)(element, rows); }

}  // namespace weft
#endif
