#include "weft/train/trainer/step_updater.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/base/error.h"
#include "weft/optim/clip.h"
#include "weft/optim/largest.h"
#include "weft/optim/make_optimizer.h"

namespace weft {

namespace {

constexpr double kFirstScale = 65536.0;
constexpr int64_t kGrowthInterval = 2000;
constexpr double kLargestScale = 0x1p64;  // limits growth while gradients are all zero
constexpr double kLargestFloat = std::numeric_limits<float>::max();

}  // namespace

StepUpdater::StepUpdater(FlatModel& model, const OptimizerOptions& optimizer, const ParameterRules& rules, double clip,
                         bool scaled, const WeightAverage& average)
    : model_(model),
      optimizer_(make_optimizer(model, optimizer, rules)),
      num_tensor_squares_(needs_tensor_norms(optimizer) ? 2 * static_cast<int64_t>(model.params().size()) : 0),
      squares_gradients_(squares_gradients(optimizer)),
      clip_(clip),
      scaled_(scaled),
      average_(average) {
  if (scaled) loss_scale_.scale = kFirstScale;
  for (int block = 0; block < model.num_blocks() && average.is_kept(); ++block) optimizer_->state(block).emplace_back();
}

void StepUpdater::begin(int64_t step, double lr) {
  step_ = step;
  number_ = step - loss_scale_.skipped_steps + 1;
  lr_ = lr;
  factor_ = 1.0;
  norm_ = 0.0;
  if (std::abs(lr) <= kLargestFloat) return;
  throw NumericError(
      fmt::format("step {}: the learning rate is {}, outside the range of float32; check its schedule", step_ + 1, lr));
}

void StepUpdater::set_scaling(const LossScale& scaling, bool was_scaled) {
  loss_scale_.skipped_steps = scaling.skipped_steps;
  if (!scaled_ || !was_scaled) return;
  loss_scale_.scale = scaling.scale;
  loss_scale_.good_steps = scaling.good_steps;
}

void StepUpdater::set_average_updates(int64_t steps, int64_t updates) {
  average_since_ = steps - loss_scale_.skipped_steps - updates;
}

void StepUpdater::add_squares(ExactSum& sum) {
  weft::add_squares(model_, sum);
  if (has_finite_statistics(model_)) return;
  if (scaled_) refuse_gradients("changes of statistics are not finite");  // no loss scale helps
  sum.add(std::numeric_limits<double>::quiet_NaN());
}

void StepUpdater::add_block_squares(int block, ExactSum& sum) { weft::add_block_squares(model_, block, sum); }

int64_t StepUpdater::largest_gradient() { return weft::largest_gradient(model_); }

/// Names a parameter of this rank; another rank's parameter is named by that rank's error. The loss was finite, or the step
/// would have failed earlier.
void StepUpdater::refuse_gradients(const std::string& what) {
  const std::string name = first_not_finite(model_);
  const std::string where = name.empty() ? "parameters of another rank (whose error names one)" : fmt::format("'{}'", name);
  throw NumericError(fmt::format(
      "step {}: {}, first of {}, though the loss is finite; nothing was updated. Look for a division by 0, a root or a "
      "logarithm of 0, or an overflow in the forward or backward of its block and of those after it",
      step_ + 1, what, where));
}

double StepUpdater::largest_taken() const { return squares_gradients_ ? std::sqrt(kLargestFloat) : kLargestFloat; }

void StepUpdater::refuse_size(const char* what, double size) const {
  throw NumericError(fmt::format(
      "step {}: the {} is {:.3g}, {} than float32 holds; nothing was updated. Clip, lower the learning rate, or check the data",
      step_ + 1, what, size, squares_gradients_ ? "whose square is larger" : "larger"));
}

void StepUpdater::accept_largest(int64_t bits, double divisor) {
  if (!std::isfinite(magnitude_of(bits))) refuse_gradients("gradients or changes of statistics are not finite");
  const double largest = magnitude_of(bits) / divisor;
  if (largest > largest_taken()) refuse_size("largest gradient", largest);
}

bool StepUpdater::accept(double norm) {
  norm_ = norm;
  if (!std::isfinite(norm)) {
    if (!scaled_) refuse_gradients(fmt::format("the gradient norm is {}", norm));
    if (loss_scale_.scale <= 1.0) {
      throw NumericError(fmt::format("step {}: gradients are not finite even with a loss scale of {}; use bf16", step_ + 1,
                                     loss_scale_.scale));
    }
    loss_scale_.scale /= 2.0;
    loss_scale_.good_steps = 0;
    ++loss_scale_.skipped_steps;
    return false;
  }
  if (clip_ > 0.0) factor_ = clip_factor(norm, clip_);
  if (norm * factor_ > largest_taken()) refuse_size("gradient norm", norm * factor_);
  if (scaled_ && ++loss_scale_.good_steps == kGrowthInterval) {
    loss_scale_.scale = std::min(loss_scale_.scale * 2.0, std::max(loss_scale_.scale, kLargestScale));
    loss_scale_.good_steps = 0;
  }
  return true;
}

/// Optimizers divide by a float32, and check it before they write.
UpdateStep StepUpdater::step_with(double divisor) const {
  const double by = divisor / factor_;
  if (by <= kLargestFloat) return {.lr = lr_, .divisor = by};
  throw NumericError(fmt::format(
      "step {}: the gradient norm is {:.3g}, so far above the clip of {} that float32 cannot hold the factor; nothing was "
      "updated. Lower the learning rate, or check the data",
      step_ + 1, norm_, clip_));
}

void StepUpdater::add_tensor_squares(double divisor, std::vector<ExactSum>& squares) {
  optimizer_->add_tensor_squares(step_with(divisor), squares);
}

void StepUpdater::take_tensor_squares(double divisor, const std::vector<ExactSum>& squares) {
  optimizer_->take_tensor_squares(step_with(divisor), squares);
}

std::vector<int64_t> StepUpdater::state_numels(int block) const {
  std::vector<int64_t> numels = optimizer_->state_numels(block);
  if (average_.is_kept()) numels.push_back(model_.flat(block).num_owned());
  return numels;
}

at::Tensor StepUpdater::part_of_gradients(int block, double divisor) {
  return optimizer_->part_of_gradients(block, step_with(divisor));
}

void StepUpdater::update(int block, double divisor) { optimizer_->update(block, step_with(divisor)); }

void StepUpdater::average(int block) {
  if (!average_.is_kept()) return;
  const int64_t updates = number_ - 1 - average_since_;
  add_to_average(optimizer_->state(block).back(), model_.flat(block).master, average_.decay_after(updates));
}

}  // namespace weft
