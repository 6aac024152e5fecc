#include "weft/train/trainer/step_updater.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/base/error.h"
#include "weft/engine/failed_step.h"
#include "weft/optim/clip.h"
#include "weft/optim/largest.h"
#include "weft/optim/make_optimizer.h"

namespace weft {

namespace {

constexpr double kLargestFloat = std::numeric_limits<float>::max();

}  // namespace

StepUpdater::StepUpdater(FlatModel& model, const OptimizerOptions& optimizer, const ParameterRules& rules, double clip,
                         bool scaled, const WeightAverage& average)
    : model_(model),
      optimizer_(make_optimizer(model, optimizer, rules)),
      num_tensor_squares_(needs_tensor_norms(optimizer) ? 2 * static_cast<int64_t>(model.params().size()) : 0),
      squares_gradients_(squares_gradients(optimizer)),
      takes_gate_(takes_gate(optimizer)),
      clip_(clip),
      scaled_(scaled),
      average_(average) {
  if (scaled) loss_scale_.scale = kFirstLossScale;
  for (int block = 0; block < model.num_blocks() && average.is_kept(); ++block) optimizer_->state(block).emplace_back();
}

void StepUpdater::begin(int64_t step, double lr) {
  step_ = step;
  number_ = step - loss_scale_.skipped_steps + 1;
  const int64_t next = optimizer_->next_number();
  update_number_ = next > 0 ? next : number_;
  gated_average_ = {};
  lr_ = float32_rates_ ? static_cast<float>(lr) : lr;
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

void StepUpdater::add_squares(const at::Tensor& words) {
  weft::add_squares(model_, words);
  mark_statistics(model_, words);
}

void StepUpdater::add_block_squares(int block, const at::Tensor& words) { weft::add_block_squares(model_, block, words); }

at::Tensor StepUpdater::largest_gradient() { return weft::largest_gradient(model_); }

/// Names a parameter of this rank; another rank's parameter is named by that rank, see agreed_on(). The loss was finite, or the
/// step would have failed earlier.
void StepUpdater::refuse_gradients(const std::string& what) {
  const std::string name = first_not_finite(model_);
  const std::string where = name.empty() ? fmt::format("parameters of {}", kAnotherRank) : fmt::format("'{}'", name);
  throw FailedStep(fmt::format(
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

/// No loss scale helps.
void StepUpdater::refuse_statistics() {
  if (scaled_) refuse_gradients("changes of statistics are not finite");
}

bool StepUpdater::accept(double norm) {
  norm_ = norm;
  if (!std::isfinite(norm)) {
    if (!scaled_) refuse_gradients(fmt::format("the gradient norm is {}", norm));
    if (!can_skip(loss_scale_)) {
      throw FailedStep(fmt::format("step {}: gradients are not finite even with a loss scale of {}; use bf16", step_ + 1,
                                   loss_scale_.scale));
    }
    count_skipped_step(loss_scale_);
    return false;
  }
  if (clip_ > 0.0) factor_ = clip_factor(norm, clip_);
  if (norm * factor_ > largest_taken()) refuse_size("gradient norm", norm * factor_);
  if (scaled_) count_good_step(loss_scale_);
  return true;
}

/// Optimizers divide by a float32, and check it before they write.
UpdateStep StepUpdater::step_with(double divisor) const {
  const double by = divisor / factor_;
  if (by <= kLargestFloat) return {.lr = lr_, .divisor = by, .has_float32_rate = float32_rates_};
  throw NumericError(fmt::format(
      "step {}: the gradient norm is {:.3g}, so far above the clip of {} that float32 cannot hold the factor; nothing was "
      "updated. Lower the learning rate, or check the data",
      step_ + 1, norm_, clip_));
}

void StepUpdater::add_tensor_squares(double divisor, const at::Tensor& squares) {
  change(-1);
  optimizer_->add_tensor_squares(step_with(divisor), squares);
}

void StepUpdater::take_tensor_squares(double divisor, const std::vector<ExactSum>& squares) {
  optimizer_->take_tensor_squares(step_with(divisor), squares);
}

UpdateStep StepUpdater::gated_step(const at::Tensor& gate, const at::Tensor& rate) const {
  return {.lr = lr_, .gate = gate, .placed = rate, .number = update_number_, .has_float32_rate = float32_rates_};
}

void StepUpdater::add_tensor_squares_gated(const at::Tensor& gate, const at::Tensor& rate, const at::Tensor& squares) {
  optimizer_->add_tensor_squares(gated_step(gate, rate), squares);
}

void StepUpdater::take_tensor_squares_gated(const at::Tensor& numbers, const at::Tensor& squares) {
  optimizer_->take_tensor_squares_gated(numbers, squares);
}

std::vector<int64_t> StepUpdater::state_numels(int block) const {
  std::vector<int64_t> numels = optimizer_->state_numels(block);
  if (average_.is_kept()) numels.push_back(model_.flat(block).num_owned());
  return numels;
}

at::Tensor StepUpdater::part_of_gradients(int block, double divisor) {
  change(block);
  return optimizer_->part_of_gradients(block, step_with(divisor));
}

at::Tensor StepUpdater::part_of_gradients_gated(int block, const at::Tensor& gate, const at::Tensor& rate) {
  change(block);
  return optimizer_->part_of_gradients(block, gated_step(gate, rate));
}

void StepUpdater::update(int block, double divisor) {
  change(block);
  optimizer_->update(block, step_with(divisor));
}

void StepUpdater::update_all(const std::vector<int>& blocks, double divisor) {
  for (const int block : blocks) change(block);
  optimizer_->update_all(blocks, step_with(divisor));
}

std::optional<UpdateLimits> StepUpdater::limits() const {
  if (!takes_gate_) return std::nullopt;
  return UpdateLimits{.clip = clip_, .most = largest_taken()};
}

void StepUpdater::update_gated(const std::vector<int>& blocks, const at::Tensor& gate, const at::Tensor& rate) {
  for (const int block : blocks) change(block);
  optimizer_->update_all(blocks, gated_step(gate, rate));
}

UpdateRate StepUpdater::rate() const { return {.rate = static_cast<float>(lr_), .number = update_number_}; }

void StepUpdater::forget_updates(int steps) {
  for (int64_t& age : optimizer_->ages()) age = std::max<int64_t>(age - steps, 0);
}

std::optional<LossScale> StepUpdater::scale_for_device() const { return scaled_ ? std::optional(loss_scale_) : std::nullopt; }

void StepUpdater::settle_update(bool skipped) {
  if (!scaled_) return;
  skipped ? count_skipped_step(loss_scale_) : count_good_step(loss_scale_);
  if (skipped) forget_updates(1);
}

void StepUpdater::average(int block) {
  if (!average_.is_kept()) return;
  const int64_t updates = number_ - 1 - average_since_;
  add_to_average(optimizer_->state(block).back(), model_.flat(block).master, average_.decay_after(updates));
}

/// Skips that the host does not know of lower both numbers alike.
void StepUpdater::average_gated(int block, const at::Tensor& gate, const at::Tensor& rate) {
  if (!average_.is_kept()) return;
  if (!gated_average_.share.defined()) {
    gated_average_ = gated_average(average_, gate, rate[1], number_ - 1 - average_since_ - update_number_);
  }
  add_to_average(optimizer_->state(block).back(), model_.flat(block).master, gated_average_);
}

}  // namespace weft
