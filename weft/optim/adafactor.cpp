// Adafactor: approximates the mean squares of a matrix's gradients by those of its rows and of its columns.
//
// Gradients are sent unchanged; each rank then works on whole tensors, keeps the means of all of them, which are small, and
// updates the elements it owns. The norms of whole weights arrive with the step's (Optimizer::take_tensor_squares()).
#include <ATen/ops/div.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
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
        rms_(model.params().size(), 0.0) {
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

  void add_tensor_squares(const UpdateStep& /*step*/, TensorSquares& squares) override {
    c10::NoGradGuard no_grad;
    FlatModel& model = ranges_.model();
    for (int block = 0; block < model.num_blocks(); ++block) {
      if (!model.holds(block) || model.is_tied_copy(block)) continue;  // counted by its first holder
      ranges_.visit(block, [&](UpdateRange& p) {
        for (const TensorPart& part : p.tensors) {
          add_squares(p.weights.narrow(0, part.begin, part.end - part.begin), part.begin, squares[2 * part.param]);
        }
      });
    }
  }

  void take_tensor_squares(const UpdateStep& /*step*/, const TensorSquares& squares) override {
    for (size_t i = 0; i < rms_.size(); ++i) {
      const auto numel = static_cast<double>(ranges_.model().params()[i].whole_numel());
      rms_[i] = numel > 0 ? std::sqrt(squares[2 * i].value() / numel) : 0.0;
    }
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
      const at::Tensor gradient =
          at::div(gradients.narrow(0, param.offset, param.numel).to(at::kFloat), step.divisor).view(param.shape);
      move(index, gradient, mean_squares(index, gradient, state), step);
    }
    ranges_.model().copy_master_to_shard(block);
    ranges_.advance(block);
  }

 private:
  /// Mean squares of the parameter's gradients, in its shape, including this step.
  at::Tensor mean_squares(int index, const at::Tensor& gradient, const at::Tensor& state) const {
    const double share = std::pow(static_cast<double>(ranges_.number_of(index)), options_.beta2_decay);
    if (gradient.dim() < 2) {
      const at::Tensor variance = state.narrow(0, begin_[index], gradient.numel()).view(gradient.sizes());
      return variance.lerp_(at::mul(gradient, gradient), share).clone();
    }
    const FactoredShape factors = factored_shape(gradient.sizes().vec());
    const at::Tensor rows = state.narrow(0, begin_[index], factors.num_rows()).view(factors.rows);
    const at::Tensor columns = state.narrow(0, begin_[index] + factors.num_rows(), factors.num_columns()).view(factors.columns);
    const auto take_in = [&](const at::Tensor& means, int64_t dim) {
      means.lerp_(at::norm(gradient, 2, {dim}, /*keepdim=*/true).square_().div_(gradient.size(dim)), share);
    };
    take_in(rows, -1);
    take_in(columns, -2);
    return at::matmul(rows, columns).div_(rows.mean(-2, /*keepdim=*/true).clamp_min_(options_.eps));
  }

  /// Moves the elements of the parameter that this rank owns; overwrites `squares`.
  void move(int index, const at::Tensor& gradient, const at::Tensor& squares, const UpdateStep& step) {
    const GroupRange own = ranges_.own(index);
    if (own.begin == own.end) return;
    const Param& param = ranges_.model().params()[index];
    const FlatBlock& flat = ranges_.model().flat(param.block);
    const at::Tensor update = squares.clamp_min_(options_.eps * options_.eps).rsqrt_().mul_(gradient).view({-1});
    const double root = std::sqrt(static_cast<double>(param.numel));
    const double clip = std::max(1.0, update.norm(2).item<double>() / (root * options_.update_clip));
    const double lr = step.lr * ranges_.lr_factor_of(index);
    const double rate =
        std::min(lr, 1.0 / std::sqrt(static_cast<double>(ranges_.number_of(index)))) * std::max(options_.min_rms, rms_[index]);
    const double decay = ranges_.decay_of(index, param.group == ParamGroup::decay ? options_.weight_decay : 0.0);
    // One rounding per operation: an element has the same bits at any position in a vector.
    at::Tensor weights = flat.master.narrow(0, own.begin, own.end - own.begin);
    if (decay != 0.0) weights.mul_(1.0 - lr * decay);
    weights.sub_(at::mul(update.narrow(0, own.begin + flat.owned.begin - param.offset, own.end - own.begin), rate / clip));
  }

  std::vector<at::Tensor> gathered_;  ///< by block: the gradients of all shards, for its next update
  std::vector<int64_t> begin_;        ///< by parameter: where its means begin in its block's state
  std::vector<int64_t> numel_;        ///< by block: elements of the state
  std::vector<double> rms_;           ///< by parameter: rms of its weights before this step's updates
};

}  // namespace

std::unique_ptr<Optimizer> make_of(FlatModel& model, const Adafactor& options, const ParameterRules& rules) {
  return std::make_unique<AdafactorOptimizer>(model, options, rules);
}

}  // namespace weft
