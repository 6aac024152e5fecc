// LARS and LAMB: a separate rate for each whole tensor, from the norms of its weights and its update.
#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sqrt.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "weft/optim/element_wise_optimizer.h"
#include "weft/optim/squares.h"

namespace weft {

namespace {

/// Norms of a whole tensor's weights and of its update.
struct TensorNorms {
  double weights = 0.0, move = 0.0;
};

TensorNorms norms_of(const TensorSquares& squares, size_t param) {
  return {std::sqrt(squares[2 * param].value()), std::sqrt(squares[2 * param + 1].value())};
}

double limited(double ratio, double limit) { return limit > 0.0 ? std::min(ratio, limit) : ratio; }

/// An optimizer with a trust ratio for each tensor that takes weight decay.
template <class Options>
class LayerWise : public ElementWiseOptimizer<Options> {
 public:
  LayerWise(FlatModel& model, const Options& options, const ParameterRules& rules)
      : ElementWiseOptimizer<Options>(model, options, rules, {.most = kRangeElements, .tensors = true}),
        ratios_(model.params().size(), 1.0) {}

  void add_tensor_squares(const UpdateStep& step, TensorSquares& squares) override {
    c10::NoGradGuard no_grad;
    FlatModel& model = this->ranges_.model();
    for (int block = 0; block < model.num_blocks(); ++block) {
      if (!model.holds(block) || model.is_tied_copy(block)) continue;  // counted by its first holder
      this->ranges_.visit(block, [&](UpdateRange& p) {
        if (!p.decay || (!p.split && !model.options().counts_unsplit)) return;
        const at::Tensor move = move_of(p, step);
        for (const TensorPart& part : p.tensors) {
          const auto add = [&](const at::Tensor& values, size_t which) {
            add_squares(values.narrow(0, part.begin, part.end - part.begin), part.begin, squares[2 * part.param + which]);
          };
          add(p.weights, 0);
          add(move, 1);
        }
      });
    }
  }

  void take_tensor_squares(const UpdateStep& step, const TensorSquares& squares) override {
    for (size_t i = 0; i < ratios_.size(); ++i) {
      if (this->ranges_.model().params()[i].group != ParamGroup::decay) continue;
      const TensorNorms norms = norms_of(squares, i);
      const double decay = this->ranges_.decay_of(i, this->options_.weight_decay);
      const bool known = norms.weights > 0.0 && norms.move > 0.0;
      ratios_[i] = known ? limited(ratio(norms, step, decay), this->options_.trust_limit) : 1.0;
    }
  }

 protected:
  /// Values whose norm the ratio uses; leaves the range unchanged.
  virtual at::Tensor move_of(const UpdateRange& range, const UpdateStep& step) const = 0;
  virtual double ratio(const TensorNorms& norms, const UpdateStep& step, double decay) const = 0;

  /// Multiplies the values of each tensor in the range by its ratio.
  void scale_by_ratio(const UpdateRange& range, const at::Tensor& values) const {
    for (const TensorPart& part : range.tensors) {
      if (ratios_[part.param] != 1.0) values.narrow(0, part.begin, part.end - part.begin).mul_(ratios_[part.param]);
    }
  }

 private:
  std::vector<double> ratios_;  ///< by parameter, for the current step
};

class LarsOptimizer : public LayerWise<Lars> {
 public:
  using LayerWise::LayerWise;

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    ranges_.update(block, [&](UpdateRange& p) {
      prepare_gradients(p, step.divisor, decay_of(p));
      scale_by_ratio(p, p.gradients);
      if (options_.momentum > 0.0) {
        at::Tensor& velocity = p.state[0];
        velocity.mul_(options_.momentum).add_(p.gradients);
        options_.nesterov ? p.gradients.add_(velocity, options_.momentum) : p.gradients.copy_(velocity);
      }
      p.weights.sub_(p.gradients, rate_of(p, step));
    });
  }

 protected:
  /// Not divided by the step's divisor: ratio() divides the norm instead.
  at::Tensor move_of(const UpdateRange& p, const UpdateStep& /*step*/) const override { return p.gradients; }

  double ratio(const TensorNorms& norms, const UpdateStep& step, double decay) const override {
    return options_.trust * norms.weights / (norms.move / step.divisor + decay * norms.weights + options_.eps);
  }
};

class LambOptimizer : public LayerWise<Lamb> {
 public:
  using LayerWise::LayerWise;

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    ranges_.update(block, [&](UpdateRange& p) {
      const Moments moments = moments_of(p, step);
      p.state[0].copy_(moments.mean);
      p.state[1].copy_(moments.squares);
      const at::Tensor move = move_by(moments, p);
      scale_by_ratio(p, move);
      p.weights.sub_(move, rate_of(p, step));
    });
  }

 protected:
  at::Tensor move_of(const UpdateRange& p, const UpdateStep& step) const override { return move_by(moments_of(p, step), p); }

  double ratio(const TensorNorms& norms, const UpdateStep& /*step*/, double /*decay*/) const override {
    return norms.weights / norms.move;
  }

 private:
  struct Moments {
    at::Tensor mean, squares;
  };

  /// Moments after this step; leaves the range unchanged.
  Moments moments_of(const UpdateRange& p, const UpdateStep& step) const {
    const at::Tensor gradients = at::div(p.gradients, step.divisor);
    return {at::mul(p.state[0], options_.beta1).add_(gradients, 1.0 - options_.beta1),
            at::mul(p.state[1], options_.beta2).addcmul_(gradients, gradients, 1.0 - options_.beta2)};
  }

  at::Tensor move_by(const Moments& moments, const UpdateRange& p) const {
    const auto number = static_cast<double>(p.number);
    const double of_mean = 1.0 - std::pow(options_.beta1, number), of_squares = 1.0 - std::pow(options_.beta2, number);
    const at::Tensor root = at::sqrt(moments.squares).div_(std::sqrt(of_squares)).add_(options_.eps);
    at::Tensor move = at::div(moments.mean, of_mean).div_(root);
    const double decay = decay_of(p);
    return decay != 0.0 ? move.add_(p.weights, decay) : move;
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lars& options, const ParameterRules& rules) {
  return std::make_unique<LarsOptimizer>(model, options, rules);
}
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lamb& options, const ParameterRules& rules) {
  return std::make_unique<LambOptimizer>(model, options, rules);
}

}  // namespace weft
