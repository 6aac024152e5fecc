// Products of small float matrices that stay in the cache, for kernels in Highway: included like base/float_formats_inl.h.
#if defined(WEFT_NN_KERNELS_SMALL_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_NN_KERNELS_SMALL_PRODUCTS_INL_H_
#undef WEFT_NN_KERNELS_SMALL_PRODUCTS_INL_H_
#else
#define WEFT_NN_KERNELS_SMALL_PRODUCTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "weft/nn/kernels/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kRows = 4;  // rows of a product that are computed together
// Vectors of a row that are computed together: 16 sums with 32 registers, else 8.
#if HWY_MAX_BYTES >= 64 || HWY_ARCH_ARM_A64
constexpr int64_t kVectors = 4;
#else
constexpr int64_t kVectors = 2;
#endif

HWY_INLINE int64_t round_up(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

// A matrix of floats: element (i, j) at data[i row + j column].
struct Matrix {
  float* data;
  int64_t row, column;
};

// c [kRows, N vectors] = or += a b over `inner`; rows of b and c are contiguous.
template <int64_t N>
HWY_INLINE void multiply_some(const Matrix& a, const float* b, int64_t b_row, float* c, int64_t c_row, int64_t inner,
                              bool adds) {
  const Tag d;
  const int64_t step = lanes();
  Vector sums[kRows][N];
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t n = 0; n < N; ++n) sums[i][n] = adds ? hn::LoadU(d, c + i * c_row + n * step) : hn::Zero(d);
  }
  const float* from = a.data;
  for (int64_t k = 0; k < inner; ++k, from += a.column, b += b_row) {
    Vector right[N];
    for (int64_t n = 0; n < N; ++n) right[n] = hn::LoadU(d, b + n * step);
    for (int64_t i = 0; i < kRows; ++i) {
      const auto left = hn::Set(d, from[i * a.row]);
      for (int64_t n = 0; n < N; ++n) sums[i][n] = hn::MulAdd(left, right[n], sums[i][n]);
    }
  }
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t n = 0; n < N; ++n) hn::StoreU(sums[i][n], d, c + i * c_row + n * step);
  }
}

// Form of the left matrix of a square product: full, or lower or upper triangular, whose zeros are skipped.
enum class Filled { whole, lower, upper };

// c [rows, columns] = or += a b over `inner`; rows is a multiple of kRows, columns of kLanes.
void multiply(Matrix a, const float* b, int64_t b_row, float* c, int64_t c_row, int64_t rows, int64_t columns, int64_t inner,
              bool adds, Filled filled = Filled::whole) {
  const int64_t step = lanes();
  for (int64_t i = 0; i < rows; i += kRows, a.data += kRows * a.row, c += kRows * c_row) {
    const int64_t first = filled == Filled::upper ? least(i, inner) : 0;
    const int64_t count = (filled == Filled::lower ? least(i + kRows, inner) : inner) - first;
    const Matrix some{a.data + first * a.column, a.row, a.column};
    const float* from = b + first * b_row;
    int64_t j = 0;
    for (; j + kVectors * step <= columns; j += kVectors * step)
      multiply_some<kVectors>(some, from + j, b_row, c + j, c_row, count, adds);
    for (; j + 2 * step <= columns; j += 2 * step) multiply_some<2>(some, from + j, b_row, c + j, c_row, count, adds);
    for (; j < columns; j += step) multiply_some<1>(some, from + j, b_row, c + j, c_row, count, adds);
  }
}

constexpr int64_t kSquare = 4;

// Transposes the square of kSquare rows and columns at `from`.
HWY_INLINE void turn_square(const float* from, int64_t from_row, float* to, int64_t to_row) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < kSquare; ++i) {
    for (int64_t k = 0; k < kSquare; ++k) to[k * to_row + i] = from[i * from_row + k];
  }
#else
  const hn::FixedTag<float, kSquare> d;
  const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + from_row);
  const auto e = hn::LoadU(d, from + 2 * from_row), f = hn::LoadU(d, from + 3 * from_row);
  const auto low = hn::InterleaveLower(d, a, b), next_low = hn::InterleaveLower(d, e, f);
  const auto high = hn::InterleaveUpper(d, a, b), next_high = hn::InterleaveUpper(d, e, f);
  hn::StoreU(hn::ConcatLowerLower(d, next_low, low), d, to);
  hn::StoreU(hn::ConcatUpperUpper(d, next_low, low), d, to + to_row);
  hn::StoreU(hn::ConcatLowerLower(d, next_high, high), d, to + 2 * to_row);
  hn::StoreU(hn::ConcatUpperUpper(d, next_high, high), d, to + 3 * to_row);
#endif
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
