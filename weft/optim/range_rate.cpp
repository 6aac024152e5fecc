#include "weft/optim/range_rate.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>

namespace weft {

namespace {

double product(const UpdateStep& step, double factor, double other_factor) {
  if (!step.has_float32_rate) return step.lr * factor * other_factor;
  return static_cast<float>(step.lr) * static_cast<float>(factor * other_factor);
}

at::Tensor on_device(double value, const at::Tensor& like) {
  return at::scalar_tensor(value, like.options().dtype(at::kDouble));
}

}  // namespace

RangeRate::RangeRate(const UpdateStep& step, double factor, double other_factor) : known_(product(step, factor, other_factor)) {
  if (!step.placed.defined() || !step.has_float32_rate) return;
  const double by = factor * other_factor;
  placed_ = by == 1.0 ? step.placed[0] : at::mul(step.placed[0], by);
}

void RangeRate::subtract(const at::Tensor& weights, const at::Tensor& values) const {
  placed_.defined() ? subtract_scaled(weights, values, {}, placed_) : void(weights.sub_(values, known_));
}

void RangeRate::subtract_quotients(const at::Tensor& weights, const at::Tensor& values, const at::Tensor& divisors) const {
  placed_.defined() ? subtract_scaled(weights, values, divisors, placed_) : void(weights.addcdiv_(values, divisors, -known_));
}

void RangeRate::decay(const at::Tensor& weights, double decay) const {
  if (decay == 0.0) return;
  placed_.defined() ? weights.mul_(kept(decay, weights)) : weights.mul_(1.0 - known_ * decay);
}

at::Tensor RangeRate::kept(double decay, const at::Tensor& weights) const { return times(-decay, weights).add_(1.0); }

at::Tensor RangeRate::times(double factor, const at::Tensor& weights) const {
  return placed_.defined() ? placed_.to(at::kDouble).mul_(factor) : on_device(known_ * factor, weights);
}

RateThere rate_there(const UpdateStep& step, const RangeRate& rate, int64_t number) {
  const double known = rate.placed().defined() ? 0.0 : rate.known();  // so that steps are alike
  return {.step = step.placed, .lr = rate.placed(), .known_lr = known, .later = number - step.number};
}

}  // namespace weft
