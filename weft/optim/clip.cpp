#include "weft/optim/clip.h"

#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>
#include <array>
#include <cmath>

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

double sum_of_squares(const at::Tensor& values) {
  if (values.is_cpu()) return sum_of_squares(values.const_data_ptr<float>(), values.numel());
  const double norm = at::linalg_vector_norm(values, 2, std::nullopt, false, at::kDouble).item<double>();
  return norm * norm;
}

}  // namespace

double gradient_norm(FlatModel& model, double divisor) {
  double total = 0.0;
  for (int b = 0; b < model.num_blocks(); ++b) {
    FlatBlock& flat = model.flat(b);
    for (const GroupRange& group : flat.groups) {
      if (group.group == ParamGroup::statistic) continue;
      total += sum_of_squares(flat.gradients.narrow(0, group.begin, group.end - group.begin));
    }
  }
  return std::sqrt(total) / divisor;
}

double clip_factor(double norm, double limit) { return norm > limit ? limit / norm : 1.0; }

}  // namespace weft
