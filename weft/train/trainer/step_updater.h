// StepUpdater: the end of a step, called by the engine: clipping, the optimizer, and fp16's loss scale.
#pragma once

#include <memory>
#include <string>

#include "weft/engine/engine.h"
#include "weft/optim/optimizer.h"
#include "weft/optim/parameter_rule.h"
#include "weft/optim/weight_average.h"

namespace weft {

/// Dynamic loss scaling (Micikevicius et al. 2018, arXiv:1710.03740): halved when a gradient is not finite, and the step is
/// skipped; doubled after 2 000 good steps in a row. Part of the training state.
struct LossScale {
  double scale = 1.0;         ///< factor on losses; a power of two
  int64_t good_steps = 0;     ///< since the scale last changed
  int64_t skipped_steps = 0;  ///< of the whole run
};

/// An Updater around an Optimizer that clips, scales losses for fp16, and averages weights.
class StepUpdater : public Updater {
 public:
  /// `clip` is the largest norm, 0: no clipping. `scaled`: the gradients are fp16's. The model must outlive it.
  StepUpdater(FlatModel& model, const OptimizerOptions& optimizer, const ParameterRules& rules, double clip, bool scaled,
              const WeightAverage& average = {});

  /// Begins a step, counted from 0, with its learning rate.
  void begin(int64_t step, double lr);
  bool wants_norm() const override { return clip_ > 0.0 || scaled_; }
  void add_squares(ExactSum& sum) override;
  void add_block_squares(int block, ExactSum& sum) override;
  /// Takes the global norm, as in Updater::accept(). Throws NumericError if it is too large to clip by, or not finite, unless
  /// the loss scale explains that. The loss scale never explains non-finite changes of statistics.
  bool accept(double norm) override;
  int64_t largest_gradient() override;
  /// Throws NumericError for a gradient that is not finite, or would overflow the optimizer's state.
  void accept_largest(int64_t bits, double divisor) override;
  int64_t num_tensor_squares() const override { return num_tensor_squares_; }
  void add_tensor_squares(double divisor, std::vector<ExactSum>& squares) override;
  void take_tensor_squares(double divisor, const std::vector<ExactSum>& squares) override;
  /// Updates the block at begin()'s learning rate, its gradients divided by `divisor` and clipped.
  void update(int block, double divisor) override;
  at::Tensor part_of_gradients(int block, double divisor) override;
  void take_gradients(int block, const at::Tensor& whole) override { optimizer_->take_gradients(block, whole); }
  void average(int block) override;
  /// The optimizer's state; then the average of the block's weights, [owned] float32, if one is kept.
  std::vector<at::Tensor>& state(int block) override { return optimizer_->state(block); }
  std::vector<int64_t> state_numels(int block) const override;
  double loss_scale() const override { return loss_scale_.scale; }

  /// The current loss scale: the only mutable state here besides the optimizer's.
  const LossScale& scaling() const { return loss_scale_; }
  Optimizer& optimizer() const { return *optimizer_; }  ///< its state is checkpointed
  bool is_scaled() const { return scaled_; }            ///< losses are scaled: fp16
  /// Restores an earlier run's scale; if either run has none (fp32, bf16), only its counters.
  void set_scaling(const LossScale& scaling, bool was_scaled);

  /// Number of updates in the average, after this many steps.
  int64_t average_updates(int64_t steps) const { return steps - loss_scale_.skipped_steps - average_since_; }
  /// Sets the number of updates in the average after this many steps. Call after set_scaling().
  void set_average_updates(int64_t steps, int64_t updates);

 private:
  UpdateStep step_with(double divisor) const;
  [[noreturn]] void refuse_gradients(const std::string& what);
  [[noreturn]] void refuse_size(const char* what, double size) const;
  double largest_taken() const;  ///< largest gradient that keeps the optimizer's state finite

  FlatModel& model_;
  std::unique_ptr<Optimizer> optimizer_;
  int64_t num_tensor_squares_;
  bool squares_gradients_;
  double clip_;
  bool scaled_;
  WeightAverage average_;
  int64_t average_since_ = 0;  ///< updates of the run before the average started
  LossScale loss_scale_;
  int64_t step_ = 0;
  int64_t number_ = 1;
  double lr_ = 0.0;
  double factor_ = 1.0;
  double norm_ = 0.0;
};

}  // namespace weft
