// Adafactor: approximates the mean squares of a matrix's gradients by those of its rows and of its columns.
//
// Gradients are sent unchanged; each rank then works on whole tensors, keeps the means of all of them, which are small, and
// updates the elements it owns. The norms of whole weights arrive with the step's (Optimizer::take_tensor_squares()).
#include <ATen/ops/div.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <utility>

#include "weft/optim/element_wise_optimizer.h"
#include "weft/optim/factored_shape.h"
#include "weft/optim/squares.h"

namespace weft {

namespace {

class AdafactorOptimizer : public ElementWiseOptimizer<Adafactor> {
 public:
  AdafactorOptimizer(FlatModel& model, const Adafactor& options, const ParameterRules& rules)
      : ElementWiseOptimizer(model, options, rules, {.most = kRangeElements, .tensors = true}, /*states=*/0),
        gathered_(model.num_blocks()),
        begin_(model.params().size(), 0),
        numel_(model.num_blocks(), 0),
        squares_(model.params().size()) {
    for (size_t i = 0; i < model.params().size(); ++i) {
      const Param& param = model.params()[i];
      if (!is_trained(param.group) || !model.owns(param.block)) continue;
      begin_[i] = numel_[param.block];
      numel_[param.block] += factored_numel(param.shape);
    }
    for (int b = 0; b < model.num_blocks(); ++b) ranges_.state(b).resize(1);
  }

  std::vector<int64_t> state_numels(int block) const override { return {numel_[block]}; }

  std::vector<StateTensor> state_tensors(int param) const override {
    const std::vector<int64_t>& shape = ranges_.model().params()[param].shape;
    const int64_t begin = begin_[param];
    if (shape.size() < 2) return {{"variance", shape, 0, begin, /*whole=*/true}};
    const FactoredShape factors = factored_shape(shape);
    return {{"row_var", factors.rows, 0, begin, true}, {"col_var", factors.columns, 0, begin + factors.num_rows(), true}};
  }

  void add_tensor_squares(const UpdateStep& /*step*/, const at::Tensor& squares) override {
    c10::NoGradGuard no_grad;
    FlatModel& model = ranges_.model();
    for (int block = 0; block < model.num_blocks(); ++block) {
      if (!model.holds(block) || model.is_tied_copy(block)) continue;  // counted by its first holder
      ranges_.visit(block, [&](UpdateRange& p) {
        std::vector<at::Tensor> parts;
        std::vector<int64_t> places, rows;
        for (const TensorPart& part : p.tensors) {
          parts.push_back(p.weights.narrow(0, part.begin, part.end - part.begin));
          places.push_back(part.begin);
          rows.push_back(2 * part.param);
        }
        add_squares_of_each(parts, places, rows, squares);
      });
    }
  }

  void take_tensor_squares(const UpdateStep& /*step*/, const TensorSquares& squares) override {
    for (size_t i = 0; i < squares_.size(); ++i) squares_[i] = squares[2 * i];
  }
  void take_tensor_squares_gated(const at::Tensor& /*numbers*/, const at::Tensor& squares) override {
    squares_there_ = squares;
  }

  at::Tensor part_of_gradients(int block, const UpdateStep& /*step*/) override {
    return ranges_.model().flat(block).owned_gradients;
  }

  void take_gradients(int block, const at::Tensor& whole) override { gathered_[block] = whole; }

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    at::Tensor gradients = std::exchange(gathered_[block], {});
    const FlatBlock& flat = ranges_.model().flat(block);
    if (!gradients.defined()) gradients = flat.owned_gradients;
    at::Tensor& state = ranges_.state(block)[0];
    if (!state.defined()) state = at::zeros({numel_[block]}, flat.master.options());
    for (const int index : flat.params) {
      const Param& param = ranges_.model().params()[index];
      if (!is_trained(param.group) || param.numel == 0 || !ranges_.is_used(index)) continue;
      const at::Tensor wide = gradients.narrow(0, param.offset, param.numel).to(at::kFloat);
      const at::Tensor gradient =
          (step.gate.defined() ? at::div(wide, step.gate[0]) : at::div(wide, step.divisor)).view(param.shape);
      const Numbers by = numbers_of(index, step);
      move(index, gradient, mean_squares(index, gradient, state, by, step), by, step);
    }
    ranges_.model().copy_master_to_shard(block);
    ranges_.advance(block);
  }

 private:
  /// What the host knows of a tensor's update or, with a gate, [kFactoredNumbers] float64 of the device.
  struct Numbers {
    FactoredNumbers known = {};
    at::Tensor there = {};
  };

  Numbers numbers_of(int index, const UpdateStep& step) const {
    const Param& param = ranges_.model().params()[index];
    const FactoredRule rule{.numel = static_cast<double>(param.whole_numel()),
                            .beta2_decay = options_.beta2_decay,
                            .min_rms = options_.min_rms,
                            .decay = ranges_.decay_of(index, param.group == ParamGroup::decay ? options_.weight_decay : 0.0)};
    const RangeRate rate(step, ranges_.lr_factor_of(index));
    const int64_t number = ranges_.number_of(index);
    if (step.refused.defined()) {
      return {.there = factored_numbers_at(rate_there(step, rate, number), rule, squares_there_[2 * index])};
    }
    return {factored_numbers(rule, rate.known(), static_cast<double>(number), squares_[index].words().data())};
  }

  /// Moves the means towards this step's, unless it is refused; returns them as if it were not.
  static at::Tensor take_in(at::Tensor means, const at::Tensor& now, const Numbers& by, const UpdateStep& step) {
    if (!step.refused.defined()) return means.lerp_(now, by.known.share);
    const at::Tensor next = at::lerp(means, now, by.there[0].to(at::kFloat));
    at::where_out(means, step.refused, means, next);
    return next;
  }

  /// Mean squares of the parameter's gradients, in its shape, including this step.
  at::Tensor mean_squares(int index, const at::Tensor& gradient, const at::Tensor& state, const Numbers& by,
                          const UpdateStep& step) const {
    if (gradient.dim() < 2) {
      const at::Tensor variance = state.narrow(0, begin_[index], gradient.numel()).view(gradient.sizes());
      return take_in(variance, at::mul(gradient, gradient), by, step).clone();
    }
    const FactoredShape factors = factored_shape(gradient.sizes().vec());
    const at::Tensor rows = state.narrow(0, begin_[index], factors.num_rows()).view(factors.rows);
    const at::Tensor columns = state.narrow(0, begin_[index] + factors.num_rows(), factors.num_columns()).view(factors.columns);
    const auto now = [&](int64_t dim) {
      return at::norm(gradient, 2, {dim}, /*keepdim=*/true).square_().div_(gradient.size(dim));
    };
    const at::Tensor by_row = take_in(rows, now(-1), by, step), by_column = take_in(columns, now(-2), by, step);
    return at::matmul(by_row, by_column).div_(by_row.mean(-2, /*keepdim=*/true).clamp_min_(options_.eps));
  }

  /// Moves the elements of the parameter that this rank owns; overwrites `squares`.
  void move(int index, const at::Tensor& gradient, const at::Tensor& squares, const Numbers& by, const UpdateStep& step) {
    const GroupRange own = ranges_.own(index);
    if (own.begin == own.end) return;
    const Param& param = ranges_.model().params()[index];
    const FlatBlock& flat = ranges_.model().flat(param.block);
    const at::Tensor update = squares.clamp_min_(options_.eps * options_.eps).rsqrt_().mul_(gradient).view({-1});
    const double root = std::sqrt(static_cast<double>(param.numel));
    const at::Tensor clip = update.norm(2).to(at::kDouble).div_(root * options_.update_clip).clamp_min_(1.0);
    // One rounding per operation: an element has the same bits at any position in a vector.
    at::Tensor weights = flat.master.narrow(0, own.begin, own.end - own.begin);
    const at::Tensor part = update.narrow(0, own.begin + flat.owned.begin - param.offset, own.end - own.begin);
    if (step.refused.defined()) {
      weights.mul_(at::where(step.refused, 1.0, by.there[1]));
      weights.sub_(at::mul(part, at::div(by.there[2], clip)).masked_fill_(step.refused, 0.0));
    } else {
      if (by.known.kept != 1.0) weights.mul_(by.known.kept);
      weights.sub_(at::mul(part, at::scalar_tensor(by.known.rate, clip.options()).div_(clip)));
    }
  }

  std::vector<at::Tensor> gathered_;  ///< by block: the gradients of all shards, for its next update
  std::vector<int64_t> begin_;        ///< by parameter: where its means begin in its block's state
  std::vector<int64_t> numel_;        ///< by block: elements of the state
  TensorSquares squares_;             ///< by parameter: of its weights before this step's updates
  at::Tensor squares_there_;          ///< as add_tensor_squares() has them, of a step with a gate
};

}  // namespace

std::unique_ptr<Optimizer> make_of(FlatModel& model, const Adafactor& options, const ParameterRules& rules) {
  return std::make_unique<AdafactorOptimizer>(model, options, rules);
}

}  // namespace weft
