// LARS and LAMB: a separate rate for each whole tensor, from the norms of its weights and its update.
#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "weft/nn/device_kernels/update_kernels.h"
#include "weft/nn/upload.h"
#include "weft/optim/element_wise_optimizer.h"
#include "weft/optim/squares.h"

namespace weft {

namespace {

/// An optimizer with a trust ratio for each tensor that takes weight decay.
template <class Options>
class LayerWise : public ElementWiseOptimizer<Options> {
 public:
  LayerWise(FlatModel& model, const Options& options, const ParameterRules& rules)
      : ElementWiseOptimizer<Options>(model, options, rules, {.most = kRangeElements, .tensors = true}),
        ratios_(model.params().size(), 1.0) {}

  void add_tensor_squares(const UpdateStep& step, const at::Tensor& squares) override {
    c10::NoGradGuard no_grad;
    FlatModel& model = this->ranges_.model();
    for (int block = 0; block < model.num_blocks(); ++block) {
      if (!model.holds(block) || model.is_tied_copy(block)) continue;  // counted by its first holder
      this->ranges_.visit(block, [&](UpdateRange& p) {
        if (!p.decay || (!p.split && !model.options().counts_unsplit)) return;
        add_squares_of_tensors(p, move_of(p, step), squares);
      });
    }
  }

  void take_tensor_squares(const UpdateStep& step, const TensorSquares& squares) override {
    for (size_t i = 0; i < ratios_.size(); ++i) {
      if (!has_ratio(i)) continue;
      std::array<int64_t, 2 * kSumWords> words{};
      for (size_t which : {0, 1}) {
        const auto& from = squares[2 * i + which].words();
        std::copy(from.begin(), from.end(), words.begin() + static_cast<std::ptrdiff_t>(which * kSumWords));
      }
      ratios_[i] = trust_ratio(rule(), words.data(), this->ranges_.decay_of(i, this->options_.weight_decay), step.divisor);
    }
  }

  void take_tensor_squares_gated(const at::Tensor& numbers, const at::Tensor& squares) override {
    if (!decays_.defined()) {
      std::vector<double> decays(ratios_.size(), std::numeric_limits<double>::quiet_NaN());
      for (size_t i = 0; i < decays.size(); ++i) {
        if (has_ratio(i)) decays[i] = this->ranges_.decay_of(i, this->options_.weight_decay);
      }
      decays_ = upload(at::tensor(decays, at::kDouble), squares.device());
    }
    gated_ratios_ = trust_ratios(rule(), squares, decays_, numbers);
  }

 protected:
  /// Values whose norm the ratio uses; leaves the range unchanged.
  virtual at::Tensor move_of(const UpdateRange& range, const UpdateStep& step) const = 0;
  virtual TrustRule rule() const = 0;

  /// Multiplies the values of each tensor in the range by its ratio.
  void scale_by_ratio(const UpdateRange& range, const at::Tensor& values, const UpdateStep& step) const {
    std::vector<ScaledPart> parts;
    for (const TensorPart& part : range.tensors) {
      if (step.gate.defined()) {
        parts.push_back({part.begin, part.end, part.param});
      } else if (ratios_[part.param] != 1.0) {
        values.narrow(0, part.begin, part.end - part.begin).mul_(ratios_[part.param]);
      }
    }
    if (range.decay) scale_parts(values, parts, gated_ratios_);
  }

 private:
  bool has_ratio(size_t param) const { return this->ranges_.model().params()[param].group == ParamGroup::decay; }

  /// Adds up each tensor's part of the weights and of `move`: on a device in one launch.
  static void add_squares_of_tensors(const UpdateRange& p, const at::Tensor& move, const at::Tensor& squares) {
    std::vector<at::Tensor> ranges;
    std::vector<int64_t> places, rows;
    for (const TensorPart& part : p.tensors) {
      for (const at::Tensor& values : {p.weights, move}) {
        ranges.push_back(values.narrow(0, part.begin, part.end - part.begin));
        places.push_back(part.begin);
        rows.push_back(2 * part.param + (ranges.size() % 2 == 0 ? 1 : 0));
      }
    }
    add_squares_of_each(ranges, places, rows, squares);
  }

  std::vector<double> ratios_;  ///< by parameter, for the current step
  at::Tensor decays_;           ///< on the device, by parameter: its weight decay, or NaN without a ratio
  at::Tensor gated_ratios_;     ///< the same, of a step with a gate: float32
};

class LarsOptimizer : public LayerWise<Lars> {
 public:
  using LayerWise::LayerWise;

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    update_ranges(block, step, [&](UpdateRange& p) {
      prepare_gradients(p, step, decay_of(p));
      scale_by_ratio(p, p.gradients, step);
      if (options_.momentum > 0.0) {
        at::Tensor& velocity = p.state[0];
        velocity.mul_(options_.momentum).add_(p.gradients);
        options_.nesterov ? p.gradients.add_(velocity, options_.momentum) : p.gradients.copy_(velocity);
      }
      rate_of(p, step).subtract(p.weights, p.gradients);
    });
  }

 protected:
  /// Not divided by the step's divisor: the ratio divides the norm instead.
  at::Tensor move_of(const UpdateRange& p, const UpdateStep& /*step*/) const override { return p.gradients; }

  TrustRule rule() const override {
    return {.has_decay = true, .trust = options_.trust, .eps = options_.eps, .limit = options_.trust_limit};
  }
};

class LambOptimizer : public LayerWise<Lamb> {
 public:
  using LayerWise::LayerWise;

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    update_ranges(block, step, [&](UpdateRange& p) {
      const Moments moments = moments_of(p, step);
      p.state[0].copy_(moments.mean);
      p.state[1].copy_(moments.squares);
      const at::Tensor move = move_by(moments, p, step);
      scale_by_ratio(p, move, step);
      rate_of(p, step).subtract(p.weights, move);
    });
  }

 protected:
  at::Tensor move_of(const UpdateRange& p, const UpdateStep& step) const override {
    return move_by(moments_of(p, step), p, step);
  }

  TrustRule rule() const override { return {.limit = options_.trust_limit}; }

 private:
  struct Moments {
    at::Tensor mean, squares;
  };

  /// Moments after this step; leaves the range unchanged.
  Moments moments_of(const UpdateRange& p, const UpdateStep& step) const {
    const at::Tensor gradients = step.gate.defined() ? at::div(p.gradients, step.gate[0]) : at::div(p.gradients, step.divisor);
    return {at::mul(p.state[0], options_.beta1).add_(gradients, 1.0 - options_.beta1),
            at::mul(p.state[1], options_.beta2).addcmul_(gradients, gradients, 1.0 - options_.beta2)};
  }

  at::Tensor move_by(const Moments& moments, const UpdateRange& p, const UpdateStep& step) const {
    at::Tensor root = at::sqrt(moments.squares), move;
    if (step.placed.defined()) {
      const at::Tensor by = bias_corrections_at(step.placed, p.number - step.number, options_.beta1, options_.beta2);
      move = at::div(moments.mean, by[0]).div_(root.div_(by[1]).add_(options_.eps));
    } else {
      const BiasCorrections by = bias_corrections(options_.beta1, options_.beta2, static_cast<double>(p.number));
      move = at::div(moments.mean, by.mean).div_(root.div_(by.root).add_(options_.eps));
    }
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
