// AdamW and SGD: LibTorch's fused kernels, one group of a block at a time.
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/GradMode.h>

#include <optional>

#include "weft/optim/element_wise_optimizer.h"

namespace weft {

namespace {

/// The kernels divide by grad_scale; omitted if the divisor is 1, which saves a write of the gradient.
std::optional<at::Tensor> scale(double divisor, const at::Tensor& like) {
  if (divisor == 1.0) return std::nullopt;
  return at::scalar_tensor(divisor, like.options());
}

class AdamWOptimizer : public ElementWiseOptimizer<AdamW> {
 public:
  AdamWOptimizer(FlatModel& model, const AdamW& options, const ParameterRules& rules)
      : ElementWiseOptimizer(model, options, rules, {}) {}

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    ranges_.update(block, [&](UpdateRange& p) {
      const at::Tensor steps =
          at::scalar_tensor(static_cast<double>(p.number), p.weights.options());  // the form required by the fused kernels
      at::_fused_adamw_({p.weights}, {p.gradients}, {p.state[0]}, {p.state[1]}, {}, {steps}, rate_of(p, step), options_.beta1,
                        options_.beta2, decay_of(p), options_.eps, /*amsgrad=*/false, /*maximize=*/false,
                        scale(step.divisor, p.weights));
    });
  }
};

class SgdOptimizer : public ElementWiseOptimizer<Sgd> {
 public:
  SgdOptimizer(FlatModel& model, const Sgd& options, const ParameterRules& rules)
      : ElementWiseOptimizer(model, options, rules, {}) {}

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    ranges_.update(block, [&](UpdateRange& p) {
      // A zero velocity turns the kernel's first step into an ordinary one: v = momentum 0 + g.
      at::_fused_sgd_({p.weights}, {p.gradients}, p.state, decay_of(p), options_.momentum, rate_of(p, step), /*dampening=*/0.0,
                      options_.nesterov, /*maximize=*/false, /*is_first_step=*/false, scale(step.divisor, p.weights));
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
