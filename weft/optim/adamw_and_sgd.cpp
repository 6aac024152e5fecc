// AdamW and SGD: LibTorch's fused kernels.
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/GradMode.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "weft/optim/element_wise_optimizer.h"

namespace weft {

namespace {

/// Ranges that one call of a fused kernel takes: of equal weight decay and number of the update.
struct Together {
  std::vector<at::Tensor> weights, gradients;
  std::vector<std::vector<at::Tensor>> states;  ///< by state tensor of the optimizer

  void add(const UpdateRange& range) {
    weights.push_back(range.weights);
    gradients.push_back(range.gradients);
    states.resize(range.state.size());
    for (size_t i = 0; i < states.size(); ++i) states[i].push_back(range.state[i]);
  }
  std::vector<at::Tensor> state(size_t i) const { return i < states.size() ? states[i] : std::vector<at::Tensor>(); }
};

/// An optimizer with a fused kernel of LibTorch's, which takes any number of ranges. On a device ranges of all blocks are
/// updated together; on the CPU each on its own, while it is in the caches.
template <class Options>
class FusedOptimizer : public ElementWiseOptimizer<Options> {
 public:
  FusedOptimizer(FlatModel& model, const Options& options, const ParameterRules& rules)
      : ElementWiseOptimizer<Options>(model, options, rules, {}) {}

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    begin(step);
    this->ranges_.update(block, [&](UpdateRange& range) { run_one(range, step); });
  }

  void update_all(const std::vector<int>& blocks, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    FlatModel& model = this->ranges_.model();
    begin(step);
    std::map<std::pair<double, int64_t>, Together> calls;
    std::vector<int> taken;
    for (const int block : blocks) {
      if (model.options().device.is_cpu() || !this->ranges_.visits_in_place(block)) {
        this->ranges_.update(block, [&](UpdateRange& range) { run_one(range, step); });
        continue;
      }
      taken.push_back(block);
      this->ranges_.visit(block, [&](UpdateRange& p) { calls[{this->decay_of(p), p.number}].add(p); });
    }
    for (const auto& [key, together] : calls) run(together, key.first, key.second, RangeRate(step, 1.0), step);
    for (const int block : taken) this->ranges_.finish(block);
  }

 protected:
  virtual void run(const Together& all, double decay, int64_t number, const RangeRate& rate, const UpdateStep& step) = 0;

  /// The kernels divide by grad_scale; omitted if the divisor is 1, which saves a write of the gradient.
  const std::optional<at::Tensor>& scale(double divisor, const at::Tensor& like) {
    if (divisor != 1.0 && !scale_) scale_ = at::scalar_tensor(divisor, like.options());
    return scale_;
  }
  /// 1 on the device to make the kernels do nothing; empty: they run.
  const std::optional<at::Tensor>& refusal() const { return refusal_; }

 private:
  void begin(const UpdateStep& step) {
    scale_ = step.gate.defined() ? std::optional(step.gate[0]) : std::nullopt;
    refusal_ = step.gate.defined() ? std::optional(step.gate[1]) : std::nullopt;
  }

  void run_one(const UpdateRange& range, const UpdateStep& step) {
    Together one;
    one.add(range);
    run(one, this->decay_of(range), range.number, this->rate_of(range, step), step);
  }

  std::optional<at::Tensor> scale_, refusal_;  ///< of the update that runs
};

class AdamWOptimizer : public FusedOptimizer<AdamW> {
 public:
  using FusedOptimizer::FusedOptimizer;

 protected:
  void run(const Together& all, double decay, int64_t number, const RangeRate& rate, const UpdateStep& step) override {
    // The form required by the fused kernels: a tensor per range.
    const std::vector<at::Tensor> steps(all.weights.size(), this->as_tensor(number, step, all.weights.front()));
    rate.visit([&](const auto& by) {
      at::_fused_adamw_(all.weights, all.gradients, all.state(0), all.state(1), {}, steps, by, options_.beta1, options_.beta2,
                        decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false, scale(step.divisor, all.weights.front()),
                        refusal());
    });
  }
};

class SgdOptimizer : public FusedOptimizer<Sgd> {
 public:
  using FusedOptimizer::FusedOptimizer;

 protected:
  void run(const Together& all, double decay, int64_t /*number*/, const RangeRate& rate, const UpdateStep& step) override {
    // A zero velocity turns the kernel's first step into an ordinary one: v = momentum 0 + g.
    rate.visit([&](const auto& by) {
      at::_fused_sgd_(all.weights, all.gradients, all.state(0), decay, options_.momentum, by, /*dampening=*/0.0,
                      options_.nesterov, /*maximize=*/false, /*is_first_step=*/false, scale(step.divisor, all.weights.front()),
                      refusal());
    });
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_of(FlatModel& model, const AdamW& options, const ParameterRules& rules) {
  return std::make_unique<AdamWOptimizer>(model, options, rules);
}
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Sgd& options, const ParameterRules& rules) {
  return std::make_unique<SgdOptimizer>(model, options, rules);
}

}  // namespace weft
