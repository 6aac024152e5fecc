#include "weft/nn/kernels/rotary_kernels.h"

#include "weft/nn/kernels/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/nn/kernels/rotary_kernels.cpp"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "weft/base/float_formats_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class Format, class D>
HWY_INLINE void turn(D d, const typename Format::Stored* x, typename Format::Stored* y, const typename Format::Stored* cosines,
                     const typename Format::Stored* sines, int64_t half, float direction) {
  const auto low = Format::load(d, x), high = Format::load(d, x + half), cosine = Format::load(d, cosines);
  const auto sine = hn::Mul(Format::load(d, sines), hn::Set(d, direction));
  Format::store(d, hn::NegMulAdd(high, sine, hn::Mul(low, cosine)), y);
  Format::store(d, hn::MulAdd(low, sine, hn::Mul(high, cosine)), y + half);
}

template <class Format>
void run(const RotaryRows& r) {
  using Stored = typename Format::Stored;
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t token = 0; token < r.tokens; ++token) {
    const auto* x = static_cast<const Stored*>(r.x) + token * r.x_token;
    auto* y = static_cast<Stored*>(r.y) + token * r.y_token;
    const auto* cosines = static_cast<const Stored*>(r.cos) + token * r.angle_token;
    const auto* sines = static_cast<const Stored*>(r.sin) + token * r.angle_token;
    int64_t i = 0;
    for (; i + lanes <= r.half; i += lanes) turn<Format>(d, x + i, y + i, cosines + i, sines + i, r.half, r.direction);
    for (; i < r.half; ++i) turn<Format>(one, x + i, y + i, cosines + i, sines + i, r.half, r.direction);
  }
}

void rotate(Element element, const RotaryRows& rows) {
  element == Element::float32 ? run<Plain<float>>(rows) : run<Brain>(rows);
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
namespace {
HWY_EXPORT(rotate);
}  // namespace

void rotary_rows(Element element, const RotaryRows& rows) { HWY_DYNAMIC_DISPATCH(rotate)(element, rows); }

}  // namespace weft
#endif
