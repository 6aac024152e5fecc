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

// Partial sums of a row: two independent chains of additions.
constexpr int64_t kParts = 2 * kLanes;
constexpr size_t kVectors = kParts / hn::MaxLanes(Tag());

struct Totals {
  float first, second;
};

// Pointer to a row in an array of rows.
template <class T>
HWY_INLINE T* row_of(void* data, int64_t place) {
  return static_cast<T*>(data) + place;
}
template <class T>
HWY_INLINE const T* row_of(const void* data, int64_t place) {
  return static_cast<const T*>(data) + place;
}

// Calls pass.apply(d, column) for all columns: by vectors, then the remainder one by one.
template <class Pass>
HWY_INLINE void over_columns(const Pass& pass, int64_t width) {
  const Tag d;
  const One one;
  int64_t column = 0;
  for (; column + lanes() <= width; column += lanes()) pass.apply(d, column);
  for (; column < width; ++column) pass.apply(one, column);
}

// Adds halves pairwise until one element is left.
template <class D>
HWY_INLINE float total_of(D d, hn::Vec<D> parts) {
#if HWY_TARGET != HWY_SCALAR  // scalar targets have no halves
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    return total_of(half, hn::Add(hn::LowerHalf(half, parts), hn::UpperHalf(half, parts)));
  }
#endif
  return hn::GetLane(parts);
}

HWY_INLINE float total_of(Vector* parts) {
  for (size_t half = kVectors / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) parts[i] = hn::Add(parts[i], parts[i + half]);
  }
  return total_of(Tag(), parts[0]);
}

// add_up() for columns that fill no vector.
template <class Pass>
HWY_INLINE void add_singly(const Pass& pass, int64_t begin, int64_t end, Vector& first, Vector& second) {
  const Tag d;
  const One one;
  float a[kLanes] = {}, b[kLanes] = {};
  hn::StoreU(first, d, a);
  hn::StoreU(second, d, b);
  for (int64_t i = 0; i < end - begin; ++i) {
    auto of_first = hn::Set(one, a[i]), of_second = hn::Set(one, b[i]);
    pass.add(one, begin + i, of_first, of_second);
    a[i] = hn::GetLane(of_first);
    b[i] = hn::GetLane(of_second);
  }
  first = hn::LoadU(d, a);
  second = hn::LoadU(d, b);
}

// The sums to which pass.add(d, column, first, second) adds all columns. A column's index modulo kParts selects its partial
// sum.
template <class Pass>
HWY_INLINE Totals add_up(const Pass& pass, int64_t width) {
  const Tag d;
  Vector first[kVectors], second[kVectors];
  for (size_t i = 0; i < kVectors; ++i) first[i] = second[i] = hn::Zero(d);
  int64_t column = 0;
  for (; column + kParts <= width; column += kParts) {
    for (size_t i = 0; i < kVectors; ++i) pass.add(d, column + static_cast<int64_t>(i) * lanes(), first[i], second[i]);
  }
  for (size_t i = 0; i < kVectors && column < width; ++i, column += lanes()) {
    if (column + lanes() <= width) {
      pass.add(d, column, first[i], second[i]);
    } else {
      add_singly(pass, column, width, first[i], second[i]);
    }
  }
  return {total_of(first), total_of(second)};
}

// The normalised value: x, or its sum with `added`, as rounded in memory.
template <class Format>
struct Input {
  using Stored = typename Format::Stored;
  const Stored *x, *added;
  Stored* sum;

  template <class D>
  HWY_INLINE hn::Vec<D> take(D d, int64_t column) const {
    const auto value = Format::load(d, x + column);
    if (!added) return value;
    const auto both = Format::rounded(d, hn::Add(value, Format::load(d, added + column)));
    Format::store(d, both, sum + column);
    return both;
  }
};

template <class Format>
struct Total {
  Input<Format> input;

  template <class D>
  HWY_INLINE void add(D d, int64_t column, hn::Vec<D>& total, hn::Vec<D>&) const {
    total = hn::Add(total, input.take(d, column));
  }
};

template <class Format>
struct Squares {
  Input<Format> input;
  float mean;

  template <class D>
  HWY_INLINE void add(D d, int64_t column, hn::Vec<D>& total, hn::Vec<D>&) const {
    const auto value = hn::Sub(input.take(d, column), hn::Set(d, mean));
    total = hn::MulAdd(value, value, total);
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

// With n = (x - mean) scale and g = dy weight: sums of g and of g n, and sums over rows of dy n and dy.
template <class Format>
struct GradientSums {
  using Stored = typename Format::Stored;
  const Stored *x, *dy;
  const float* weight;
  float *of_weight, *of_bias;
  float mean, scale;

  template <class D>
  HWY_INLINE void add(D d, int64_t column, hn::Vec<D>& of_g, hn::Vec<D>& of_gn) const {
    const auto n = hn::Mul(hn::Sub(Format::load(d, x + column), hn::Set(d, mean)), hn::Set(d, scale));
    const auto gradient = Format::load(d, dy + column), g = hn::Mul(gradient, hn::LoadU(d, weight + column));
    of_g = hn::Add(of_g, g);
    of_gn = hn::MulAdd(g, n, of_gn);
    hn::StoreU(hn::MulAdd(gradient, n, hn::LoadU(d, of_weight + column)), d, of_weight + column);
    hn::StoreU(hn::Add(hn::LoadU(d, of_bias + column), gradient), d, of_bias + column);
  }
};

// dx = scale (g - mean(g) - n mean(g n)) + residual; RMS norm subtracts no mean.
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
    const auto own = hn::Mul(centred, hn::Set(d, scale));
    // Rounded before the residual gradient is added, as when autograd adds the two.
    Format::store(d, residual ? hn::Add(Format::rounded(d, own), Format::load(d, residual + column)) : own, dx + column);
  }
};

template <class Format>
void forward(const NormRows& r) {
  using Stored = typename Format::Stored;
  const auto count = static_cast<float>(r.width);
  for (int64_t row = 0; row < r.rows; ++row) {
    const int64_t place = row * r.width;
    Input<Format> input{row_of<Stored>(r.x, place), nullptr, nullptr};
    if (r.added) input = {input.x, row_of<Stored>(r.added, place), row_of<Stored>(r.sum, place)};
    float mean = 0.0F;
    if (r.mean) {
      r.mean[row] = mean = add_up(Total<Format>{input}, r.width).first / count;
      if (r.added) input = {input.sum, nullptr, nullptr};
    }
    const float squares = add_up(Squares<Format>{input, mean}, r.width).first;
    const float scale = 1.0F / sqrtf(squares / count + r.eps);
    r.scale[row] = scale;
    const Stored* x = input.added ? input.sum : input.x;
    over_columns(Output<Format>{x, row_of<Stored>(r.y, place), r.weight, r.bias, mean, scale}, r.width);
  }
}

template <class Format>
void again(const NormRows& r) {
  using Stored = typename Format::Stored;
  for (int64_t row = 0; row < r.rows; ++row) {
    const int64_t place = row * r.width;
    over_columns(Output<Format>{row_of<Stored>(r.x, place), row_of<Stored>(r.y, place), r.weight, r.bias,
                                r.mean ? r.mean[row] : 0.0F, r.scale[row]},
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
    const float mean = r.mean ? r.mean[row] : 0.0F, scale = r.scale[row];
    const auto [of_g, of_gn] =
        add_up(GradientSums<Format>{x, dy, r.weight, r.gradient_sums, r.gradient_sums + r.width, mean, scale}, r.width);
    const float mean_g = r.mean ? of_g / count : 0.0F, mean_gn = of_gn / count;
    const Stored* residual = r.residual ? row_of<Stored>(r.residual, place) : nullptr;
    over_columns(Gradient<Format>{x, dy, residual, row_of<Stored>(r.dx, place), r.weight, mean, scale, mean_g, mean_gn},
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
