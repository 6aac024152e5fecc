#include "weft/optim/clip.h"

#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "weft/base/math.h"

namespace weft {

namespace {

/// Eight running sums, so that the compiler may use vectors without changing the order of any of them.
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

void add_squares(const at::Tensor& values, ExactSum& sum) {
  const float* data = values.const_data_ptr<float>();
  for (int64_t begin = 0; begin < values.numel(); begin += kAlignElements) {
    sum.add(sum_of_squares(data + begin, std::min(kAlignElements, values.numel() - begin)));
  }
}

/// The same on another device: one number a run comes to the host.
void add_squares_of_device(const at::Tensor& values, ExactSum& sum) {
  const int64_t runs = ceil_divide(values.numel(), kAlignElements);
  at::Tensor squares = at::zeros({runs * kAlignElements}, values.options().dtype(at::kDouble));
  squares.narrow(0, 0, values.numel()).copy_(values).square_();
  const at::Tensor sums = squares.view({runs, kAlignElements}).sum(1).cpu();
  for (int64_t i = 0; i < runs; ++i) sum.add(sums.const_data_ptr<double>()[i]);
}

}  // namespace

void add_squares(FlatModel& model, ExactSum& sum) {
  constexpr int64_t kChunk = int64_t{1} << 18;  // of gradients that must be converted first
  c10::NoGradGuard no_grad;
  for (int b = 0; b < model.num_blocks(); ++b) {
    if (model.is_tied_copy(b)) continue;  // its first holder counts it
    const FlatBlock& flat = model.flat(b);
    for (const GroupRange& group : flat.groups) {
      if (group.group == ParamGroup::statistic || (!group.split && !model.options().counts_unsplit)) continue;
      const GroupRange own = flat.own(group);
      for (int64_t begin = own.begin; begin < own.end; begin += kChunk) {
        const at::Tensor part = flat.owned_gradients.narrow(0, begin, std::min(kChunk, own.end - begin));
        part.is_cpu() ? add_squares(part.to(at::kFloat), sum) : add_squares_of_device(part, sum);
      }
    }
  }
}

double clip_factor(double norm, double limit) { return norm > limit ? limit / norm : 1.0; }

}  // namespace weft
