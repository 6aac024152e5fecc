#include "weft/train/run/step_updater.h"

#include <fmt/core.h>

#include <cmath>

#include "weft/base/error.h"
#include "weft/optim/clip.h"
#include "weft/optim/make_optimizer.h"

namespace weft {

namespace {

constexpr double kFirstScale = 65536.0;
constexpr int64_t kGrowthInterval = 2000;

}  // namespace

StepUpdater::StepUpdater(FlatModel& model, const OptimizerOptions& optimizer, const ParameterRules& rules, double clip,
                         bool scaled, const WeightAverage& average)
    : model_(model),
      optimizer_(make_optimizer(model, optimizer, rules)),
      num_tensor_squares_(needs_tensor_norms(optimizer) ? 2 * static_cast<int64_t>(model.params().size()) : 0),
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

void StepUpdater::add_squares(ExactSum& sum) { weft::add_squares(model_, sum); }

void StepUpdater::add_block_squares(int block, ExactSum& sum) { weft::add_block_squares(model_, block, sum); }

bool StepUpdater::accept(double norm) {
  if (!std::isfinite(norm)) {
    if (!scaled_) {
      throw NumericError(
          fmt::format("step {}: the gradient norm is {}; lower the learning rate, or check the data", step_ + 1, norm));
    }
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
  if (scaled_ && ++loss_scale_.good_steps == kGrowthInterval) {
    loss_scale_.scale *= 2.0;
    loss_scale_.good_steps = 0;
  }
  return true;
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
