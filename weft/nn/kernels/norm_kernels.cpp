#include "weft/nn/kernels/norm_kernels.h"

#include <cmath>

#include "weft/nn/kernels/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/nn/kernels/norm_kernels.cpp"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "weft/base/float_formats_inl.h"
#include "weft/nn/kernels/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {

using One = hn::CappedTag<float, 1>;

// A row's place in all that have rows.
template <class T>
HWY_INLINE T* row_of(void* data, int64_t place) {
  return static_cast<T*>(data) + place;
}
template <class T>
HWY_INLINE const T* row_of(const void* data, int64_t place) {
  return static_cast<const T*>(data) + place;
}

// Calls pass.apply(d, column) for all columns, by vectors and what is left one by one.
template <class Pass>
HWY_INLINE void over_columns(const Pass& pass, int64_t width) {
  const Tag d;
  const One one;
  const int64_t step = lanes(), whole = width / step * step;
  for (int64_t column = 0; column < whole; column += step) pass.apply(d, column);
  for (int64_t column = whole; column < width; ++column) pass.apply(one, column);
}

// Two sums over all columns: pass.add(d, column, first, second) adds to both what it has there. Of each there are 2 kLanes
// partial sums, each of every so manieth column.
template <class Pass>
HWY_INLINE void sum_columns(const Pass& pass, int64_t width, float& first, float& second) {
  const Tag d;
  const One one;
  constexpr int64_t kSums = 2 * kLanes, kVectorsOfSums = kSums / static_cast<int64_t>(hn::MaxLanes(Tag()));
  Vector firsts[kVectorsOfSums], seconds[kVectorsOfSums];
  for (int64_t n = 0; n < kVectorsOfSums; ++n) firsts[n] = seconds[n] = hn::Zero(d);
  const int64_t whole = width / kSums * kSums;
  for (int64_t column = 0; column < whole; column += kSums) {
    for (int64_t n = 0; n < kVectorsOfSums; ++n) pass.add(d, column + n * lanes(), firsts[n], seconds[n]);
  }
  float first_parts[kSums], second_parts[kSums];
  for (int64_t n = 0; n < kVectorsOfSums; ++n) {
    hn::StoreU(firsts[n], d, first_parts + n * lanes());
    hn::StoreU(seconds[n], d, second_parts + n * lanes());
  }
  for (int64_t column = whole; column < width; ++column) {
    auto a = hn::Set(one, first_parts[column - whole]), b = hn::Set(one, second_parts[column - whole]);
    pass.add(one, column, a, b);
    first_parts[column - whole] = hn::GetLane(a);
    second_parts[column - whole] = hn::GetLane(b);
  }
  for (int64_t i = 0; i < kLanes; ++i) {
    first_parts[i] += first_parts[i + kLanes];
    second_parts[i] += second_parts[i + kLanes];
  }
  first = sum_of(first_parts);
  second = sum_of(second_parts);
}

template <class D>
HWY_INLINE void add_to(D d, float* to, hn::Vec<D> value) {
  hn::StoreU(hn::Add(hn::LoadU(d, to), value), d, to);
}

template <class D>
HWY_INLINE void add_product(D d, float* to, hn::Vec<D> a, hn::Vec<D> b) {
  hn::StoreU(hn::MulAdd(a, b, hn::LoadU(d, to)), d, to);
}

// The sum of the two, as it is rounded in memory.
template <class Format>
struct Join {
  using Stored = typename Format::Stored;
  const Stored *x, *added;
  Stored* sum;

  template <class D>
  HWY_INLINE void apply(D d, int64_t column) const {
    Format::store(d, hn::Add(Format::load(d, x + column), Format::load(d, added + column)), sum + column);
  }
};

// Of the values alone.
template <class Format>
struct Total {
  const typename Format::Stored* x;

  template <class D, class V>
  HWY_INLINE void add(D d, int64_t column, V& sum, V&) const {
    sum = hn::Add(sum, Format::load(d, x + column));
  }
};

template <class Format>
struct Squares {
  const typename Format::Stored* x;
  float mean;

  template <class D, class V>
  HWY_INLINE void add(D d, int64_t column, V& sum, V&) const {
    const auto value = hn::Sub(Format::load(d, x + column), hn::Set(d, mean));
    sum = hn::MulAdd(value, value, sum);
  }
};

template <class Format>
struct Output {
  using Stored = typename Format::Stored;
  const Stored* x;
  Stored* y;
  const float *weight, *bias;
  float mean, scale;

  template <class D>
  HWY_INLINE void apply(D d, int64_t column) const {
    const auto value = hn::Mul(hn::Sub(Format::load(d, x + column), hn::Set(d, mean)), hn::Set(d, scale));
    const auto w = hn::LoadU(d, weight + column);
    Format::store(d, bias ? hn::MulAdd(value, w, hn::LoadU(d, bias + column)) : hn::Mul(Format::rounded(d, value), w),
                  y + column);
  }
};

// With n = (x - mean) scale and g = dy weight: sums of g and of g n; and those over rows of dy n and dy.
template <class Format>
struct GradientSums {
  using Stored = typename Format::Stored;
  const Stored *x, *dy;
  const float* weight;
  float *of_weight, *of_bias;
  float mean, scale;

  template <class D, class V>
  HWY_INLINE void add(D d, int64_t column, V& sum_g, V& sum_gn) const {
    const auto n = hn::Mul(hn::Sub(Format::load(d, x + column), hn::Set(d, mean)), hn::Set(d, scale));
    const auto gradient = Format::load(d, dy + column), g = hn::Mul(gradient, hn::LoadU(d, weight + column));
    sum_g = hn::Add(sum_g, g);
    sum_gn = hn::MulAdd(g, n, sum_gn);
    add_product(d, of_weight + column, gradient, n);
    add_to(d, of_bias + column, gradient);
  }
};

// dx = scale (g - mean(g) - n mean(g n)), and what comes by the other way; RMS norm takes no mean off.
template <class Format>
struct Gradient {
  using Stored = typename Format::Stored;
  const Stored *x, *dy, *residual;
  Stored* dx;
  const float* weight;
  float mean, scale, mean_g, mean_gn;

  template <class D>
  HWY_INLINE void apply(D d, int64_t column) const {
    const auto n = hn::Mul(hn::Sub(Format::load(d, x + column), hn::Set(d, mean)), hn::Set(d, scale));
    const auto g = hn::Mul(Format::load(d, dy + column), hn::LoadU(d, weight + column));
    const auto centred = hn::NegMulAdd(n, hn::Set(d, mean_gn), hn::Sub(g, hn::Set(d, mean_g)));
    // Rounded before what comes by the other way is added, as where autograd adds the two.
    const auto own = Format::rounded(d, hn::Mul(centred, hn::Set(d, scale)));
    Format::store(d, residual ? hn::Add(own, Format::load(d, residual + column)) : own, dx + column);
  }
};

template <class Format>
void forward(const NormRows& r) {
  using Stored = typename Format::Stored;
  const auto count = static_cast<float>(r.width);
  for (int64_t row = 0; row < r.rows; ++row) {
    const int64_t place = row * r.width;
    const Stored* x = row_of<Stored>(r.x, place);
    if (r.added) {
      over_columns(Join<Format>{x, row_of<Stored>(r.added, place), row_of<Stored>(r.sum, place)}, r.width);
      x = row_of<Stored>(r.sum, place);
    }
    float mean = 0.0F, sum, none;
    if (r.mean) {
      sum_columns(Total<Format>{x}, r.width, sum, none);
      r.mean[row] = mean = sum / count;
    }
    sum_columns(Squares<Format>{x, mean}, r.width, sum, none);
    const float scale = 1.0F / sqrtf(sum / count + r.eps);
    r.scale[row] = scale;
    over_columns(Output<Format>{x, row_of<Stored>(r.y, place), r.weight, r.bias, mean, scale}, r.width);
  }
}

template <class Format>
void again(const NormRows& r) {
  using Stored = typename Format::Stored;
  for (int64_t row = 0; row < r.rows; ++row) {
    const int64_t place = row * r.width;
    const float mean = r.mean ? r.mean[row] : 0.0F;
    over_columns(Output<Format>{row_of<Stored>(r.x, place), row_of<Stored>(r.y, place), r.weight, r.bias, mean, r.scale[row]},
                 r.width);
  }
}

template <class Format>
void backward(const NormRows& r) {
  using Stored = typename Format::Stored;
  const auto count = static_cast<float>(r.width);
  fill(r.gradient_sums, 2 * r.width, 0.0F);
  for (int64_t row = 0; row < r.rows; ++row) {
    const int64_t place = row * r.width;
    const Stored *x = row_of<Stored>(r.x, place), *dy = row_of<Stored>(r.dy, place);
    const Stored* residual = r.residual ? row_of<Stored>(r.residual, place) : nullptr;
    const float mean = r.mean ? r.mean[row] : 0.0F, scale = r.scale[row];
    float sum_g, sum_gn;
    sum_columns(GradientSums<Format>{x, dy, r.weight, r.gradient_sums, r.gradient_sums + r.width, mean, scale}, r.width, sum_g,
                sum_gn);
    const float mean_g = r.mean ? sum_g / count : 0.0F;
    over_columns(Gradient<Format>{x, dy, residual, row_of<Stored>(r.dx, place), r.weight, mean, scale, mean_g, sum_gn / count},
                 r.width);
  }
}

void run_forward(Element element, const NormRows& rows) {
  element == Element::float32 ? forward<Plain<float>>(rows) : forward<Brain>(rows);
}

void run_again(Element element, const NormRows& rows) {
  element == Element::float32 ? again<Plain<float>>(rows) : again<Brain>(rows);
}

void run_backward(Element element, const NormRows& rows) {
  element == Element::float32 ? backward<Plain<float>>(rows) : backward<Brain>(rows);
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
namespace {
HWY_EXPORT(run_forward);
HWY_EXPORT(run_again);
HWY_EXPORT(run_backward);
}  // namespace

void norm_rows(Element element, const NormRows& rows) { HWY_DYNAMIC_DISPATCH(run_forward)(element, rows); }
void norm_again_rows(Element element, const NormRows& rows) { HWY_DYNAMIC_DISPATCH(run_again)(element, rows); }
void norm_backward_rows(Element element, const NormRows& rows) { HWY_DYNAMIC_DISPATCH(run_backward)(element, rows); }

}  // namespace weft
#endif
