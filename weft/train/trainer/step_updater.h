// StepUpdater: the end of a step, called by the engine: clipping, the optimizer, and fp16's loss scale.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "weft/engine/engine.h"
#include "weft/nn/device_kernels/loss_scale.h"
#include "weft/optim/optimizer.h"
#include "weft/optim/parameter_rule.h"
#include "weft/optim/weight_average.h"

namespace weft {

/// What errors say of a parameter or a sample that is another rank's, whose error names it.
inline constexpr const char* kAnotherRank = "another rank";

/// An Updater around an Optimizer that clips, scales losses for fp16, and averages weights.
class StepUpdater : public Updater {
 public:
  /// `clip` is the largest norm, 0: no clipping. `scaled`: the gradients are fp16's. The model must outlive it.
  StepUpdater(FlatModel& model, const OptimizerOptions& optimizer, const ParameterRules& rules, double clip, bool scaled,
              const WeightAverage& average = {});

  /// From now on rates are rounded to float32, as devices keep them, and gated updates read them there.
  void use_float32_rates() { float32_rates_ = true; }
  /// `call` is called before any of a block's state changes, on the host; with -1: of all blocks'.
  void before_change(std::function<void(int block)> call) { before_change_ = std::move(call); }
  /// Begins a step, counted from 0, with its learning rate.
  void begin(int64_t step, double lr);
  bool wants_norm() const override { return clip_ > 0.0 || scaled_; }
  void add_squares(const at::Tensor& words) override;
  void add_block_squares(int block, const at::Tensor& words) override;
  /// Takes the global norm, as in Updater::accept(). Throws NumericError if it is too large to clip by, or not finite, unless
  /// the loss scale explains that. The loss scale never explains non-finite changes of statistics.
  bool accept(double norm) override;
  at::Tensor largest_gradient() override;
  /// Throws NumericError for a gradient that is not finite, or would overflow the optimizer's state.
  void accept_largest(int64_t bits, double divisor) override;
  void refuse_statistics() override;
  int64_t num_tensor_squares() const override { return num_tensor_squares_; }
  void add_tensor_squares_gated(const at::Tensor& gate, const at::Tensor& rate, const at::Tensor& squares) override;
  void take_tensor_squares_gated(const at::Tensor& numbers, const at::Tensor& squares) override;
  void add_tensor_squares(double divisor, const at::Tensor& squares) override;
  void take_tensor_squares(double divisor, const std::vector<ExactSum>& squares) override;
  /// Updates the block at begin()'s learning rate, its gradients divided by `divisor` and clipped.
  void update(int block, double divisor) override;
  void update_all(const std::vector<int>& blocks, double divisor) override;
  std::optional<UpdateLimits> limits() const override;
  void update_gated(const std::vector<int>& blocks, const at::Tensor& gate, const at::Tensor& rate) override;
  UpdateRate rate() const override;
  void count_updates(const std::vector<int>& blocks) override { optimizer_->count_updates(blocks); }
  void forget_updates(int steps) override;
  std::optional<LossScale> scale_for_device() const override;
  void settle_update(bool skipped) override;
  at::Tensor part_of_gradients(int block, double divisor) override;
  at::Tensor part_of_gradients_gated(int block, const at::Tensor& gate, const at::Tensor& rate) override;
  void take_gradients(int block, const at::Tensor& whole) override { optimizer_->take_gradients(block, whole); }
  void average(int block) override;
  void average_gated(int block, const at::Tensor& gate, const at::Tensor& rate) override;
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
  UpdateStep gated_step(const at::Tensor& gate, const at::Tensor& rate) const;
  [[noreturn]] void refuse_gradients(const std::string& what);
  [[noreturn]] void refuse_size(const char* what, double size) const;
  double largest_taken() const;  ///< largest gradient that keeps the optimizer's state finite

  void change(int block) const {
    if (before_change_) before_change_(block);
  }

  FlatModel& model_;
  std::function<void(int)> before_change_;
  std::unique_ptr<Optimizer> optimizer_;
  int64_t num_tensor_squares_;
  bool squares_gradients_;
  bool takes_gate_;
  double clip_;
  bool scaled_;
  WeightAverage average_;
  GatedAverage gated_average_;  ///< of this step, once a gated update has asked for it
  int64_t average_since_ = 0;   ///< updates of the run before the average started
  LossScale loss_scale_;
  int64_t step_ = 0;
  int64_t number_ = 1;         ///< of the step's update in the run
  int64_t update_number_ = 1;  ///< Optimizer::next_number() when the step began, or number_
  bool float32_rates_ = false;
  double lr_ = 0.0;
  double factor_ = 1.0;
  double norm_ = 0.0;
};

}  // namespace weft
