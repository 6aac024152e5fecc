#include "weft/nn/kernels/swiglu_kernels.h"

#include "weft/nn/kernels/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/nn/kernels/swiglu_kernels.cpp"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "weft/base/float_formats_inl.h"
#include "weft/nn/kernels/exponential_inl.h"
#include "weft/nn/kernels/in_vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {

// Beyond +-kFar, silu is x or below 1e-35, and its gradient 1 or zero; exp(-x) would overflow below -kFar.
constexpr float kFar = 87.0F;

// exp(-x) for x of at least -kFar.
template <class D>
HWY_INLINE hn::Vec<D> sigmoid(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, exponential(d, hn::Neg(x))));
}

template <class Format>
struct Forward {
  template <class D>
  static HWY_INLINE void apply(D d, const SwigluRows& r, int64_t place) {
    using Stored = typename Format::Stored;
    const auto gate = at_least(d, Format::load(d, static_cast<const Stored*>(r.gate) + place), -kFar);
    const auto up = Format::load(d, static_cast<const Stored*>(r.up) + place);
    Format::store(d, hn::Mul(hn::Mul(gate, sigmoid(d, gate)), up), static_cast<Stored*>(r.y) + place);
  }
};

// With s = sigmoid(gate): d_up = dy gate s, d_gate = dy up (s + gate s (1 - s)).
template <class Format>
struct Backward {
  template <class D>
  static HWY_INLINE void apply(D d, const SwigluRows& r, int64_t place) {
    using Stored = typename Format::Stored;
    const auto gate = at_least(d, Format::load(d, static_cast<const Stored*>(r.gate) + place), -kFar);
    const auto up = Format::load(d, static_cast<const Stored*>(r.up) + place);
    const auto dy = Format::load(d, static_cast<const Stored*>(r.dy) + place);
    const auto s = sigmoid(d, gate), silu = hn::Mul(gate, s);
    const auto slope = hn::MulAdd(at_most(d, silu, kFar), hn::Sub(hn::Set(d, 1.0F), s), s);
    if (r.y) Format::store(d, hn::Mul(silu, up), static_cast<Stored*>(r.y) + place);
    Format::store(d, hn::Mul(hn::Mul(dy, up), slope), static_cast<Stored*>(r.d_gate) + place);
    Format::store(d, hn::Mul(dy, silu), static_cast<Stored*>(r.d_up) + place);
  }
};

void forward(Element element, const SwigluRows& rows) { in_vectors_of<Forward>(element, rows); }
void backward(Element element, const SwigluRows& rows) { in_vectors_of<Backward>(element, rows); }

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
namespace {
HWY_EXPORT(forward);
HWY_EXPORT(backward);
}  // namespace

void swiglu_rows(Element element, const SwigluRows& rows) { HWY_DYNAMIC_DISPATCH(forward)(element, rows); }
void swiglu_backward_rows(Element element, const SwigluRows& rows) { HWY_DYNAMIC_DISPATCH(backward)(element, rows); }

}  // namespace weft
#endif
