#include "weft/optim/weight_average.h"

#include <ATen/ops/lerp.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/optim/update_ranges.h"

namespace weft {

double WeightAverage::decay_after(int64_t updates) const {
  if (!warmup) return decay;
  const auto n = static_cast<double>(updates);
  return std::min(decay, (1.0 + n) / (10.0 + n));
}

std::string WeightAverage::text() const {
  return is_kept() ? fmt::format("{}{}", decay, warmup ? " with warm-up" : "") : "none";
}

void check_average(const WeightAverage& average) {
  if (average.decay >= 0.0 && average.decay < 1.0) return;
  throw InputError(fmt::format("optimizer.ema is {}; it must be in [0, 1)", average.decay));
}

void add_to_average(const at::Tensor& average, const at::Tensor& weights, double decay) {
  c10::NoGradGuard no_grad;
  average.lerp_(weights, 1.0 - decay);
}

GatedAverage gated_average(const WeightAverage& average, const at::Tensor& gate, const at::Tensor& number, int64_t more) {
  c10::NoGradGuard no_grad;
  const at::Tensor updates = number.to(at::kDouble).add_(more);
  const at::Tensor early = updates.add(1.0).div_(updates.add(10.0));
  const at::Tensor decay = average.warmup ? early.clamp_max_(average.decay) : early.fill_(average.decay);
  return {.share = decay.neg_().add_(1.0).to(at::kFloat), .refused = gate[1].to(at::kBool)};
}

void add_to_average(const at::Tensor& average, const at::Tensor& weights, const GatedAverage& by) {
  c10::NoGradGuard no_grad;
  for (int64_t begin = 0; begin < average.numel(); begin += kDeviceRangeElements) {
    const int64_t numel = std::min(kDeviceRangeElements, average.numel() - begin);
    at::Tensor kept = average.narrow(0, begin, numel);
    at::where_out(kept, by.refused, kept, at::lerp(kept, weights.narrow(0, begin, numel), by.share));
  }
}

void exchange_values(const at::Tensor& a, const at::Tensor& b) {
  constexpr int64_t kAtATime = int64_t{1} << 16;
  c10::NoGradGuard no_grad;
  for (int64_t begin = 0; begin < a.numel(); begin += kAtATime) {
    const int64_t numel = std::min(kAtATime, a.numel() - begin);
    const at::Tensor one = a.narrow(0, begin, numel), other = b.narrow(0, begin, numel), kept = one.clone();
    one.copy_(other);
    other.copy_(kept);
  }
}

}  // namespace weft
