#include "weft/optim/squares.h"

#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "weft/base/math.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/nn/operators_path.h"

namespace weft {

namespace {

/// Eight running sums, so the compiler may vectorise without changing the order of any sum.
double sum_of_squares(const float* values, int64_t numel) {
  constexpr int64_t kLanes = 8;
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

/// Handles values on another device: copies one number per run to the host.
void add_squares_of_device(const at::Tensor& values, int64_t before, ExactSum& sum) {
  const int64_t runs = ceil_divide(before + values.numel(), kAlignElements);
  at::Tensor squares = at::zeros({runs * kAlignElements}, values.options().dtype(at::kDouble));
  squares.narrow(0, before, values.numel()).copy_(values).square_();
  const at::Tensor sums = squares.view({runs, kAlignElements}).sum(1).cpu();
  for (int64_t i = 0; i < runs; ++i) sum.add(sums.const_data_ptr<double>()[i]);
}

}  // namespace

int64_t device_squares_bytes(int64_t numel) {
  constexpr int kDoubleSize = 8;
  const int64_t runs = ceil_divide(numel, kAlignElements);
  return (runs * kAlignElements + runs) * kDoubleSize;
}

void add_squares(const at::Tensor& values, int64_t offset, ExactSum& sum) {
  const int64_t before = offset % kAlignElements;
  if (!values.is_cpu() || forces_operators()) return add_squares_of_device(values, before, sum);
  const float* data = values.const_data_ptr<float>();
  for (int64_t begin = 0; begin < values.numel();) {
    const int64_t end = std::min(values.numel(), begin + kAlignElements - (offset + begin) % kAlignElements);
    sum.add(sum_of_squares(data + begin, end - begin));
    begin = end;
  }
}

}  // namespace weft
