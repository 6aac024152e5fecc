#include "weft/nn/kernels/cross_entropy_kernels.h"

#include <cmath>

#include "weft/nn/kernels/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/nn/kernels/cross_entropy_kernels.cpp"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "weft/nn/kernels/exponential_inl.h"
#include "weft/nn/kernels/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {

float largest_of(const float* x, int64_t count) {
  const Tag d;
  const int64_t step = lanes(), whole = count / step * step;
  auto most = hn::Set(d, -INFINITY);
  for (int64_t i = 0; i < whole; i += step) most = hn::Max(most, hn::LoadU(d, x + i));
  float largest = hn::GetLane(hn::MaxOfLanes(d, most));
  for (int64_t i = whole; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

// The sum of exponentials of x minus `largest`; writes them to `powers` unless it is null.
float sum_of_powers(const float* x, int64_t count, float largest, float* powers) {
  const Tag d;
  const hn::CappedTag<float, 1> one;
  const int64_t step = lanes(), whole = count / step * step;
  float parts[kLanes];
  fill(parts, kLanes, 0.0F);
  for (int64_t i = 0; i < whole; i += step) {
    const auto power = exponential(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, largest)));
    if (powers) hn::StoreU(power, d, powers + i);
    float* part = parts + i % kLanes;
    hn::StoreU(hn::Add(hn::LoadU(d, part), power), d, part);
  }
  for (int64_t i = whole; i < count; ++i) {
    const float power = hn::GetLane(exponential(one, hn::Set(one, x[i] - largest)));
    if (powers) powers[i] = power;
    parts[i % kLanes] += power;
  }
  return sum_of(parts);
}

void scale(float* x, int64_t count, float factor) {
  const Tag d;
  const int64_t step = lanes(), whole = count / step * step;
  for (int64_t i = 0; i < whole; i += step) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, x + i);
  for (int64_t i = whole; i < count; ++i) x[i] *= factor;
}

void run(const LossRows& r) {
  for (int64_t row = 0; row < r.rows; ++row) {
    const float* x = r.logits + row * r.classes;
    float* gradient = r.gradient ? r.gradient + row * r.classes : nullptr;
    const int64_t target = r.targets[row];
    if (target == r.ignored) {
      r.losses[row] = 0.0;
      if (gradient) fill(gradient, r.classes, 0.0F);
      continue;
    }
    const float largest = largest_of(x, r.classes), sum = sum_of_powers(x, r.classes, largest, gradient);
    r.losses[row] = log(static_cast<double>(sum)) + (static_cast<double>(largest) - static_cast<double>(x[target]));
    if (!gradient) continue;
    scale(gradient, r.classes, 1.0F / sum);
    gradient[target] -= 1.0F;
  }
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
namespace {
HWY_EXPORT(run);
}  // namespace

void cross_entropy_rows(const LossRows& rows) { HWY_DYNAMIC_DISPATCH(run)(rows); }

}  // namespace weft
#endif
