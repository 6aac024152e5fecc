#include "weft/nn/loss/split_cross_entropy.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/nn/graph.h"
#include "weft/nn/id_checks.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/reproducible_parts.h"

namespace weft {

namespace {

constexpr int64_t kIgnored = -100;
constexpr const char* kWhat = "logits";

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A range of classes, as one rank or piece holds.
struct Classes {
  int64_t first = 0;
  int64_t count = 0;  ///< excluding padding
};

/// Classes of one piece of this rank, where each rank has `pieces`.
Classes own_classes(int64_t classes, const Group& group, int64_t pieces, int64_t piece) {
  const int64_t size = ceil_divide(classes, group.size() * pieces);
  const int64_t first = std::min(classes, size * (group.rank() * pieces + piece));
  return {first, std::min(classes, first + size) - first};
}

/// Targets as indices into own classes, 0 for others; and a mask of own targets.
std::tuple<at::Tensor, at::Tensor> own_targets(const at::Tensor& target, const Classes& own) {
  const at::Tensor mine = target.ge(own.first).bitwise_and_(target.lt(own.first + own.count));
  return {target.sub(own.first).masked_fill_(mine.bitwise_not(), 0), mine};
}

/// The largest of each row; -inf for empty rows.
at::Tensor largest(const at::Tensor& logits) {
  if (logits.size(1) > 0) return logits.amax(1);
  return at::full({logits.size(0)}, -std::numeric_limits<float>::infinity(), logits.options());
}

/// [2, targets]: a piece's sums of exponentials, and the target's logit if it is in the piece.
at::Tensor sums_of(const at::Tensor& logits, const at::Tensor& target, const at::Tensor& top, const Classes& own) {
  const at::Tensor sums = at::zeros({2, logits.size(0)}, logits.options());
  if (own.count == 0) return sums;
  const at::Tensor real = logits.narrow(1, 0, own.count);
  const auto [index, mine] = own_targets(target, own);
  sums[0].copy_(real.sub(top.unsqueeze(1)).exp_().sum(1));
  sums[1].copy_(real.gather(1, index.unsqueeze(1)).squeeze(1).sub(top).masked_fill_(mine.bitwise_not(), 0));
  return sums;
}

/// Writes a piece's gradient to `dx`: softmax - one-hot, times the factor of each row.
void put_gradient(at::Tensor dx, const at::Tensor& logits, const at::Tensor& target, const at::Tensor& log_sum,
                  const at::Tensor& factors, const Classes& own) {
  at::sub_out(dx, logits, log_sum.unsqueeze(1));
  dx.exp_();
  if (own.count > 0) {
    const auto [index, mine] = own_targets(target, own);
    dx.scatter_add_(1, index.unsqueeze(1), mine.to(dx.scalar_type()).neg_().unsqueeze(1));
  }
  dx.mul_(factors.unsqueeze(1));
  if (own.count < logits.size(1)) dx.narrow(1, own.count, logits.size(1) - own.count).zero_();
}

/// The sum over rows of log-sum-exp minus the target's logit; logits [pieces, targets, classes of a piece].
struct VocabularyLoss : torch::autograd::Function<VocabularyLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& target, int64_t classes,
                            const Group& group) {
    const int64_t pieces = logits.size(0);
    const auto own = [&](int64_t piece) { return own_classes(classes, group, pieces, piece); };
    const auto largest_of = [&](int64_t piece) { return largest(logits[piece].narrow(1, 0, own(piece).count)); };
    at::Tensor top = largest_of(0);
    for (int64_t piece = 1; piece < pieces; ++piece) top = at::maximum(top, largest_of(piece));
    group.all_reduce(top, ReduceOp::max, kWhat).wait();
    const at::Tensor sums = tree_sum(pieces, [&](int64_t piece) { return sums_of(logits[piece], target, top, own(piece)); });
    group.all_reduce(sums, ReduceOp::sum, kWhat).wait();
    const at::Tensor log_sum = sums[0].log();
    context->save_for_backward({logits, top.add(log_sum), target});
    std::vector<int64_t> firsts, counts;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      firsts.push_back(own(piece).first);
      counts.push_back(own(piece).count);
    }
    context->saved_data["firsts"] = firsts;
    context->saved_data["counts"] = counts;
    return log_sum.sub(sums[1]).masked_fill_(target.eq(kIgnored), 0).sum();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("loss");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &logits = saved[0], &target = saved[2];
    const std::vector<int64_t> firsts = context->saved_data["firsts"].toIntVector();
    const std::vector<int64_t> counts = context->saved_data["counts"].toIntVector();
    const at::Tensor factors = target.ne(kIgnored).to(logits.scalar_type()).mul_(gradients[0]);
    const at::Tensor dx = at::empty_like(logits);
    for (int64_t piece = 0; piece < logits.size(0); ++piece) {
      put_gradient(dx[piece], logits[piece], target, saved[1], factors, {firsts[piece], counts[piece]});
    }
    return {dx, {}, {}, {}};
  }
};

/// Throws InputError, on the CPU, for a target that is not a class: no rank would have its logit.
void refuse_wrong(const at::Tensor& target, int64_t classes) {
  if (!target.is_cpu()) return;  // checked_ids() has clamped it
  const at::Tensor wrong = target.lt(0).bitwise_or_(target.ge(classes)).bitwise_and_(target.ne(kIgnored));
  if (!wrong.any().item<bool>()) return;
  throw InputError(fmt::format("loss: target {} is not one of {} classes; check the data, or the model's vocabulary",
                               target.masked_select(wrong)[0].item<int64_t>(), classes));
}

/// [pieces x batch, ..., classes of a piece] as [pieces, targets, classes of a piece].
at::Tensor in_pieces(const at::Tensor& logits, const at::Tensor& target, int64_t classes, const Context& context) {
  const int64_t targets = target.numel(), rows = c10::multiply_integers(logits.sizes().slice(0, logits.dim() - 1));
  const int64_t pieces = targets > 0 ? std::max<int64_t>(1, rows / targets) : 1;
  const bool fits = rows == pieces * targets && logits.size(-1) == ceil_divide(classes, context.tp.size() * pieces);
  TensorChecks(kWhat).that(
      fits, "logits", logits,
      fmt::format("parts of {} classes over {} ranks for {} targets", classes, context.tp.size(), targets));
  return logits.reshape({pieces, targets, logits.size(-1)});
}

/// Returns whether the logits are parts; otherwise they cover all classes, or any number on the meta device (cost measurement).
bool is_part(const Tensors& outputs, const at::Tensor& target, int64_t classes, const Context& context) {
  const TensorChecks check("loss");
  if (outputs.empty()) throw InputError("loss: the last block has no outputs");
  const at::Tensor& logits = outputs.front();
  check.floats("logits", logits, 1);
  check.dense("target", target);
  check.that(target.device() == logits.device(), "target", target, "on " + logits.device().str());
  check.that(target.scalar_type() == at::kLong, "target", target, "class ids, Long");
  const bool has_pieces = logits.numel() != target.numel() * logits.size(-1);
  const bool part = (context.tp.size() > 1 || has_pieces) && logits.size(-1) != classes;
  check.that(part || logits.is_meta() || logits.size(-1) == classes, "logits", logits, fmt::format("of {} classes", classes));
  return part;
}

/// Returns whether the outputs are those of a head that has made the losses itself (nn/loss/language_head.h).
bool are_losses(const Tensors& outputs, const at::Tensor& target, const Context& context) {
  return context.layout.loss_chunk > 0 && !outputs.empty() && outputs.front().dim() == 1 && target.dim() > 1;
}

}  // namespace

at::Tensor vocabulary_targets(const at::Tensor& target, int64_t classes) {
  const TensorChecks check("loss");
  check.dense("target", target);
  check.that(target.scalar_type() == at::kLong, "target", target, "class ids, Long");
  const at::Tensor ids = checked_ids("loss: target", target, classes, kIgnored);
  refuse_wrong(ids, classes);
  return ids;
}

at::Tensor vocabulary_loss(const at::Tensor& logits, const at::Tensor& ids, int64_t classes, const Context& context) {
  if (!is_part({logits}, ids, classes, context)) return cross_entropy_of_ids(logits, ids);
  const at::Tensor pieces = in_pieces(widen({logits})[0], ids, classes, context);
  return VocabularyLoss::apply(pieces, ids.reshape({-1}), classes, context.tp);
}

Loss vocabulary_cross_entropy(int64_t classes) {
  return Loss([classes](const Tensors& outputs, const at::Tensor& target, const Context& context) -> LossValue {
           if (are_losses(outputs, target, context)) return {outputs.front().sum(), count_targets(target, kIgnored)};
           if (!is_part(outputs, target, classes, context)) return cross_entropy(outputs, target);
           const at::Tensor ids = vocabulary_targets(target, classes);  // before anything is sent
           LossCount count = count_targets(ids, kIgnored);
           return {vocabulary_loss(outputs.front(), ids, classes, context), std::move(count)};
         })
      .of_any_type()
      .of_chunks();
}

Hits vocabulary_hits(int64_t classes) {
  return Hits([classes](const Tensors& outputs, const at::Tensor& target, const Context& context) -> LossCount {
           if (are_losses(outputs, target, context)) return number_of(outputs.at(1));
           if (!is_part(outputs, target, classes, context)) return count_hits(outputs, target);
           const at::Tensor pieces = in_pieces(widen(outputs)[0], target, classes, context);
           std::vector<at::Tensor> best, where;
           for (int64_t piece = 0; piece < pieces.size(0); ++piece) {
             const Classes own = own_classes(classes, context.tp, pieces.size(0), piece);
             const at::Tensor rows = pieces[piece].narrow(1, 0, own.count);
             best.push_back(largest(rows));
             where.push_back(own.count > 0 ? rows.argmax(1).add(own.first)
                                           : at::full({rows.size(0)}, classes, target.options()));
           }
           at::Tensor top = best[0].clone();
           for (const at::Tensor& other : best) top = at::maximum(top, other);
           context.tp.all_reduce(top, ReduceOp::max, kWhat).wait();
           // Of equal logits, the first wins, as in argmax; other ranks' rows hold an invalid class.
           at::Tensor winner = at::full({top.size(0)}, classes, target.options());
           for (size_t piece = 0; piece < best.size(); ++piece) {
             winner = at::minimum(winner, at::where(best[piece].eq(top), where[piece], classes));
           }
           context.tp.all_reduce(winner, ReduceOp::min, kWhat).wait();
           return number_of(winner.eq(target.reshape({-1})));
         })
      .of_any_type()
      .of_chunks();
}

}  // namespace weft
