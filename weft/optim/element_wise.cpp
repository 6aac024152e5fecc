// Lion, RMSprop, Adagrad: element-wise optimizers without a fused kernel.
#include <ATen/ops/mul.h>
#include <ATen/ops/sqrt.h>
#include <c10/core/GradMode.h>

#include "weft/optim/element_wise_optimizer.h"

namespace weft {

namespace {

class LionOptimizer : public ElementWiseOptimizer<Lion> {
 public:
  using ElementWiseOptimizer::ElementWiseOptimizer;

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    update_ranges(block, step, [&](UpdateRange& p) {
      prepare_gradients(p, step, 0.0);  // its decay applies only to the weights
      at::Tensor& mean = p.state[0];
      const RangeRate rate = rate_of(p, step);
      rate.decay(p.weights, decay_of(p));
      at::Tensor towards = at::mul(mean, options_.beta1);
      towards.add_(p.gradients, 1.0 - options_.beta1).sign_();
      rate.subtract(p.weights, towards);
      mean.mul_(options_.beta2).add_(p.gradients, 1.0 - options_.beta2);
    });
  }
};

class RmsPropOptimizer : public ElementWiseOptimizer<RmsProp> {
 public:
  using ElementWiseOptimizer::ElementWiseOptimizer;

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    update_ranges(block, step, [&](UpdateRange& p) {
      prepare_gradients(p, step, decay_of(p));
      at::Tensor& squares = p.state[0];
      squares.mul_(options_.alpha).addcmul_(p.gradients, p.gradients, 1.0 - options_.alpha);
      const at::Tensor root = at::sqrt(squares).add_(options_.eps);
      if (options_.momentum > 0.0) {
        rate_of(p, step).subtract(p.weights, p.state[1].mul_(options_.momentum).addcdiv_(p.gradients, root));
      } else {
        rate_of(p, step).subtract_quotients(p.weights, p.gradients, root);
      }
    });
  }
};

class AdagradOptimizer : public ElementWiseOptimizer<Adagrad> {
 public:
  using ElementWiseOptimizer::ElementWiseOptimizer;

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    update_ranges(block, step, [&](UpdateRange& p) {
      prepare_gradients(p, step, decay_of(p));
      p.state[0].addcmul_(p.gradients, p.gradients);
      rate_of(p, step).subtract_quotients(p.weights, p.gradients, at::sqrt(p.state[0]).add_(options_.eps));
    });
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lion& options, const ParameterRules& rules) {
  return std::make_unique<LionOptimizer>(model, options, rules);
}
std::unique_ptr<Optimizer> make_of(FlatModel& model, const RmsProp& options, const ParameterRules& rules) {
  return std::make_unique<RmsPropOptimizer>(model, options, rules);
}
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Adagrad& options, const ParameterRules& rules) {
  return std::make_unique<AdagradOptimizer>(model, options, rules);
}

}  // namespace weft
