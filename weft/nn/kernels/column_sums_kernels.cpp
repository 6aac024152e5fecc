#include "weft/nn/kernels/column_sums_kernels.h"

#include "weft/nn/kernels/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/nn/kernels/column_sums_kernels.cpp"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "weft/base/float_formats_inl.h"
#include "weft/nn/kernels/in_vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// The sum of four rows: (0 + 1) + (2 + 3).
template <class Format, class D>
HWY_INLINE hn::Vec<D> sum_of_four(D d, const typename Format::Stored* x, int64_t columns) {
  const auto first = hn::Add(Format::load(d, x), Format::load(d, x + columns));
  const auto last = hn::Add(Format::load(d, x + 2 * columns), Format::load(d, x + 3 * columns));
  return hn::Add(first, last);
}

template <class Format>
struct AddEight {
  template <class D>
  static HWY_INLINE void apply(D d, const typename Format::Stored* x, int64_t columns, float* sums, int64_t i) {
    const auto eight = hn::Add(sum_of_four<Format>(d, x + i, columns), sum_of_four<Format>(d, x + 4 * columns + i, columns));
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), eight), d, sums + i);
  }
};

template <class Format>
struct AddOne {
  template <class D>
  static HWY_INLINE void apply(D d, const typename Format::Stored* x, float* sums, int64_t i) {
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), Format::load(d, x + i)), d, sums + i);
  }
};

template <class Format>
void run(const ColumnSumsRows& r) {
  const auto* x = static_cast<const typename Format::Stored*>(r.x);
  for (int64_t i = 0; i < r.columns; ++i) r.sums[i] = 0.0F;
  int64_t row = 0;
  for (; row + 8 <= r.rows; row += 8) in_vectors<AddEight<Format>>(r.columns, x + row * r.columns, r.columns, r.sums);
  for (; row < r.rows; ++row) in_vectors<AddOne<Format>>(r.columns, x + row * r.columns, r.sums);
}

void add_columns(Element element, const ColumnSumsRows& rows) {
  element == Element::float32 ? run<Plain<float>>(rows) : run<Brain>(rows);
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
namespace {
HWY_EXPORT(add_columns);
}  // namespace

void column_sums_rows(Element element, const ColumnSumsRows& rows) { HWY_DYNAMIC_DISPATCH(add_columns)(element, rows); }

}  // namespace weft
#endif
