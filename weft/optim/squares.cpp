#include "weft/optim/squares.h"

#include <algorithm>
#include <array>

#include "weft/base/exact_sum.h"
#include "weft/base/math.h"
#include "weft/nn/device_kernels/device_kernels.h"
#include "weft/nn/device_kernels/element_functions.h"
#include "weft/nn/device_kernels/update_kernels.h"

namespace weft {

namespace {

/// As squares_of_run() of the device kernels, to the same bits, with the lanes side by side so that the compiler vectorises.
double sum_of_squares(const float* values, int64_t numel) {
  constexpr int64_t kLanes = kSquareLanes;
  std::array<double, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= numel; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (; i < numel; ++i) sums[i % kLanes] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double total = 0.0;
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace

void add_squares(const at::Tensor& values, int64_t offset, const at::Tensor& words) {
  if (!values.is_cpu()) return add_squares_of({values}, {offset}, words);
  ExactSum sum;
  const float* data = values.const_data_ptr<float>();
  for (int64_t begin = 0; begin < values.numel();) {
    const int64_t end = std::min(values.numel(), begin + kAlignElements - (offset + begin) % kAlignElements);
    sum.add(sum_of_squares(data + begin, end - begin));
    begin = end;
  }
  sum.carry();
  auto* total = words.mutable_data_ptr<int64_t>();
  std::transform(sum.words().begin(), sum.words().end(), total, total, [](int64_t x, int64_t y) { return x + y; });
}

void add_squares_of_each(at::TensorList ranges, at::IntArrayRef offsets, at::IntArrayRef rows, const at::Tensor& sums) {
  if (!sums.is_cpu()) return add_squares_each(ranges, offsets, rows, sums);
  for (size_t i = 0; i < ranges.size(); ++i) add_squares(ranges[i], offsets[i], sums[rows[i]]);
}

}  // namespace weft
