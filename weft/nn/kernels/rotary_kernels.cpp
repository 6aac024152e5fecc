#include "weft/nn/kernels/rotary_kernels.h"

#include "weft/nn/kernels/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/nn/kernels/rotary_kernels.cpp"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "weft/base/float_formats_inl.h"
#include "weft/nn/kernels/in_vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// A token's head: its two halves of `half` elements each.
template <class Stored>
struct Head {
  const Stored *x, *cosines, *sines;
  Stored* y;
  int64_t half;
  float direction;
};

template <class Format>
struct Turn {
  template <class D>
  static HWY_INLINE void apply(D d, const Head<typename Format::Stored>& r, int64_t i) {
    const auto low = Format::load(d, r.x + i), high = Format::load(d, r.x + r.half + i),
               cosine = Format::load(d, r.cosines + i);
    const auto sine = hn::Mul(Format::load(d, r.sines + i), hn::Set(d, r.direction));
    // Not fused, as LibTorch's operators on other devices.
    Format::store(d, hn::Sub(hn::Mul(low, cosine), hn::Mul(high, sine)), r.y + i);
    Format::store(d, hn::Add(hn::Mul(high, cosine), hn::Mul(low, sine)), r.y + r.half + i);
  }
};

template <class Format>
void run(const RotaryRows& r) {
  using Stored = typename Format::Stored;
  for (int64_t token = 0; token < r.tokens; ++token) {
    const Head<Stored> head{.x = static_cast<const Stored*>(r.x) + token * r.x_token,
                            .cosines = static_cast<const Stored*>(r.cos) + token * r.angle_token,
                            .sines = static_cast<const Stored*>(r.sin) + token * r.angle_token,
                            .y = static_cast<Stored*>(r.y) + token * r.y_token,
                            .half = r.half,
                            .direction = r.direction};
    in_vectors<Turn<Format>>(r.half, head);
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
