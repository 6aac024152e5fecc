// Muon: orthogonal updates of hidden matrices, and AdamW for the rest.
//
// The momentum of a matrix is element-wise, for the elements that the rank owns. The input of the orthogonalisation is gathered
// in bfloat16, the type of PyTorch's Newton-Schulz steps. Each of their sums lies within one matrix product, so a matrix has
// the same bits on every rank, as long as the ranks have the same number of threads.
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "weft/optim/element_wise_optimizer.h"
#include "weft/optim/hidden_matrices.h"

namespace weft {

namespace {

/// Five steps take singular values in (0, 1] to about [0.7, 1.2]: x -> a x + b x^3 + c x^5 (Jordan et al. 2024).
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;

/// Approximates the orthogonal matrix nearest to a bfloat16 [rows, columns], which it may overwrite: same shape, contiguous.
at::Tensor orthogonal(at::Tensor x, int steps, double eps) {
  const bool tall = x.size(0) > x.size(1);
  if (tall) x = x.t();
  x.div_(x.norm().clamp_min(eps));
  for (int step = 0; step < steps; ++step) {
    const at::Tensor gram = at::matmul(x, x.t());
    const at::Tensor of_gram = at::addmm(gram, gram, gram, kB, kC);
    x = at::addmm(x, of_gram, x, kA);
  }
  return (tall ? x.t() : x).contiguous();
}

double rate_by_shape(MatrixRate rate, int64_t rows, int64_t columns) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
  return rate == MatrixRate::original ? std::sqrt(std::max(1.0, r / c)) : 0.2 * std::sqrt(std::max(r, c));
}

class MuonOptimizer : public ElementWiseOptimizer<Muon> {
 public:
  MuonOptimizer(FlatModel& model, const Muon& options, const ParameterRules& rules)
      : ElementWiseOptimizer(model, options, rules,
                             {.most = kRangeElements, .tensors = true, .matrices = hidden_matrices(model, rules)},
                             /*states=*/1),
        gathered_(model.num_blocks()),
        second_begin_(model.params().size(), 0),
        second_numel_(model.num_blocks(), 0) {
    for (int i = 0; i < static_cast<int>(model.params().size()); ++i) {
      const Param& param = model.params()[i];
      if (!is_trained(param.group) || ranges_.is_matrix(i) || !model.holds(param.block)) continue;
      const GroupRange own = ranges_.own(i);
      second_begin_[i] = second_numel_[param.block];
      second_numel_[param.block] += own.end - own.begin;
    }
    for (int b = 0; b < model.num_blocks(); ++b) ranges_.state(b).resize(2);
  }

  std::vector<int64_t> state_numels(int block) const override {
    return {ranges_.model().flat(block).num_owned(), second_numel_[block]};
  }

  std::vector<StateTensor> state_tensors(int param) const override {
    const std::vector<int64_t>& shape = ranges_.model().params()[param].shape;
    const int64_t begin = ranges_.own(param).begin;
    if (ranges_.is_matrix(param)) return {{"momentum_buffer", shape, 0, begin}};
    return {{"exp_avg", shape, 0, begin}, {"exp_avg_sq", shape, 1, second_begin_[param]}};
  }

  at::Tensor part_of_gradients(int block, const UpdateStep& given) override {
    c10::NoGradGuard no_grad;
    const UpdateStep step = with_refusal(given);
    const FlatBlock& flat = ranges_.model().flat(block);
    at::Tensor moves = at::zeros({flat.num_owned()}, flat.master.options().dtype(at::kBFloat16));
    ranges_.visit(block, [&](UpdateRange& p) {
      if (!p.matrix) return;
      prepare_gradients(p, step, 0.0);
      const at::Tensor momentum = take_in(p.state[0], p.gradients, step);
      const at::Tensor move = options_.nesterov ? at::lerp(p.gradients, momentum, options_.momentum) : momentum;
      for (const TensorPart& part : p.tensors) {
        const int64_t numel = part.end - part.begin;
        moves.narrow(0, p.begin + part.begin, numel).copy_(move.narrow(0, part.begin, numel));
      }
    });
    return moves;
  }

  void take_gradients(int block, const at::Tensor& whole) override { gathered_[block] = whole; }

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    at::Tensor moves = std::exchange(gathered_[block], {});
    const FlatBlock& flat = ranges_.model().flat(block);
    for (const int index : flat.params) {
      if (!ranges_.is_matrix(index) || !ranges_.is_used(index)) continue;
      if (!moves.defined()) moves = part_of_gradients(block, step);
      move_matrix(index, moves, step);
    }
    at::Tensor& second = ranges_.state(block)[1];
    if (!second.defined()) second = at::zeros({second_numel_[block]}, flat.master.options());
    ranges_.update(block, [&](UpdateRange& p) {
      if (!p.matrix) update_others(p, second, step);
    });
  }

 private:
  /// Returns the momentum after this step, which becomes the state unless the step is refused.
  at::Tensor take_in(at::Tensor& momentum, const at::Tensor& gradients, const UpdateStep& step) const {
    if (!step.refused.defined()) return momentum.lerp_(gradients, 1.0 - options_.momentum);
    const at::Tensor next = at::lerp(momentum, gradients, 1.0 - options_.momentum);
    at::where_out(momentum, step.refused, momentum, next);
    return next;
  }

  /// Updates this rank's part of a matrix; `moves` is gathered from all shards.
  void move_matrix(int index, const at::Tensor& moves, const UpdateStep& step) {
    const Param& param = ranges_.model().params()[index];
    const GroupRange own = ranges_.own(index);
    if (own.begin == own.end) return;
    const FlatBlock& flat = ranges_.model().flat(param.block);
    const int64_t rows = param.shape.front(), columns = param.numel / rows;
    const at::Tensor whole = moves.narrow(0, param.offset, param.numel).view({rows, columns});
    const at::Tensor orthogonal_move = orthogonal(whole, options_.ns_steps, options_.ns_eps).view({-1});
    const int64_t first = own.begin + flat.owned.begin - param.offset;
    at::Tensor move = orthogonal_move.narrow(0, first, own.end - own.begin).to(at::kFloat);
    const RangeRate rate(step, ranges_.lr_factor_of(index));
    // One rounding per operation: an element has the same bits at any position in a vector.
    at::Tensor weights = flat.master.narrow(0, own.begin, own.end - own.begin);
    const double decay = ranges_.decay_of(index, options_.weight_decay),
                 by_shape = rate_by_shape(options_.adjust, rows, columns);
    if (step.refused.defined()) {
      weights.mul_(at::where(step.refused, 1.0, rate.kept(decay, weights)));
      move.mul_(rate.times(by_shape, weights)).masked_fill_(step.refused, 0.0);
    } else {
      weights.mul_(1.0 - rate.known() * decay);
      move.mul_(rate.known() * by_shape);
    }
    weights.sub_(move);
  }

  /// AdamW's update. `second` has the mean squares of the block's parameters that are not matrices, concatenated.
  void update_others(UpdateRange& p, const at::Tensor& second, const UpdateStep& step) {
    prepare_gradients(p, step, 0.0);
    const at::Tensor squares = at::zeros(p.weights.sizes(), p.weights.options());
    const auto for_each_part = [&](const auto& visit) {
      for (const TensorPart& part : p.tensors) {
        const int64_t numel = part.end - part.begin;
        const int64_t at = second_begin_[part.param] + p.begin + part.begin - ranges_.own(part.param).begin;
        visit(squares.narrow(0, part.begin, numel), second.narrow(0, at, numel));
      }
    };
    for_each_part([](const at::Tensor& here, const at::Tensor& kept) { here.copy_(kept); });
    const std::optional<at::Tensor> refusal = step.gate.defined() ? std::optional(step.gate[1]) : std::nullopt;
    RangeRate(step, p.lr_factor, options_.adam_lr / options_.lr).visit([&](const auto& rate) {
      at::_fused_adamw_({p.weights}, {p.gradients}, {p.state[0]}, {squares}, {}, {as_tensor(p.number, step, p.weights)}, rate,
                        options_.beta1, options_.beta2, decay_of(p), options_.eps, /*amsgrad=*/false, /*maximize=*/false,
                        /*grad_scale=*/{}, refusal);
    });
    for_each_part([](const at::Tensor& here, const at::Tensor& kept) { kept.copy_(here); });
  }

  std::vector<at::Tensor> gathered_;   ///< by block: the moves of all shards, for its next update
  std::vector<int64_t> second_begin_;  ///< by parameter that is not a matrix: where its mean squares begin in the second state
  std::vector<int64_t> second_numel_;  ///< by block: elements of the second state
};

}  // namespace

std::unique_ptr<Optimizer> make_of(FlatModel& model, const Muon& options, const ParameterRules& rules) {
  return std::make_unique<MuonOptimizer>(model, options, rules);
}

}  // namespace weft
