#include "weft/nn/loss/cross_entropy.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ne.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/nn/graph.h"
#include "weft/nn/id_checks.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/loss/class_loss.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

/// Returns whether the target has class ids; otherwise it has class probabilities.
bool is_of_ids(const at::Tensor& target) { return !target.defined() || !target.is_floating_point(); }

/// The logits, and the most likely class of each target.
std::pair<at::Tensor, at::Tensor> logits_and_labels(const Tensors& outputs, const at::Tensor& target) {
  const bool of_ids = is_of_ids(target);
  return {checked_logits(outputs, target, of_ids), of_ids ? target : target.argmax(-1)};
}

/// Refuses class ids that are floats, and PyTorch's order of dimensions.
void check_layout(const at::Tensor& logits, const at::Tensor& target, bool of_ids) {
  if (!target.defined() || target.dim() != logits.dim() - 1) return;
  const auto shapes = [&] {
    return fmt::format("target is {}, logits are {}", type_and_shape(target), type_and_shape(logits));
  };
  if (!of_ids)
    throw InputError(fmt::format("loss: {}: class ids must be int64 (Long); floats are a probability per class", shapes()));
  std::vector<int64_t> others = logits.sizes().vec();
  if (target.sizes() == at::IntArrayRef(others).slice(0, others.size() - 1)) return;
  others.erase(others.begin() + 1);
  if (target.sizes() == at::IntArrayRef(others))
    throw InputError(fmt::format(
        "loss: {}: classes are the last dimension, unlike in PyTorch; logits.movedim(1, -1) has them there", shapes()));
}

at::Tensor summed_loss(const at::Tensor& rows, const at::Tensor& target, double smoothing) {
  return at::cross_entropy_loss(rows, target, {}, at::Reduction::Sum, kIgnoreIndex, smoothing);
}

LossValue cross_entropy_of(const Tensors& outputs, const at::Tensor& target, double smoothing) {
  const bool of_ids = is_of_ids(target);
  const int64_t classes = checked_logits(outputs, target, of_ids).size(-1);
  if (!of_ids) {
    const at::Tensor logits = widen({outputs.front()})[0].reshape({-1, classes});
    return {summed_loss(logits, target.reshape({-1, classes}), smoothing), logits.size(0)};
  }
  const at::Tensor flat = checked_ids("loss: target", target, classes, kIgnoreIndex).reshape({-1});
  LossCount count = count_targets(flat, kIgnoreIndex);  // first: nothing of the loss is alive yet
  if (smoothing == 0.0) return {cross_entropy_of_ids(outputs.front(), flat), std::move(count)};
  return {summed_loss(widen({outputs.front()})[0].reshape({-1, classes}), flat, smoothing), std::move(count)};
}

struct SmoothedCrossEntropy {
  double smoothing;
  LossValue operator()(const Tensors& outputs, const at::Tensor& target) const {
    return cross_entropy_of(outputs, target, smoothing);
  }
};

}  // namespace

at::Tensor checked_logits(const Tensors& outputs, const at::Tensor& target, bool of_ids) {
  const TensorChecks check("loss");
  if (outputs.empty()) throw InputError("loss: the last block has no outputs");
  const at::Tensor& logits = outputs.front();
  check.floats("logits", logits, 1);
  check.that(logits.size(-1) > 0, "logits", logits, "[..., classes] with at least one class");
  check_layout(logits, target, of_ids);
  if (!of_ids && target.dim() > 0 && target.size(-1) != logits.size(-1))
    throw InputError(fmt::format("loss: targets for {} classes, logits of {}", target.size(-1), logits.size(-1)));
  check.sizes("target", target, of_ids ? logits.sizes().slice(0, logits.dim() - 1) : logits.sizes(), logits);
  check.that(!of_ids || target.scalar_type() == at::kLong, "target", target, "class ids, Long");
  return logits;
}

LossCount number_of(const at::Tensor& counted) {
  const at::Tensor count = counted.sum();
  if (!has_elements(counted)) return counted.numel();
  return counted.is_cpu() ? LossCount(count.item<int64_t>()) : LossCount(count);
}

LossCount count_targets(const at::Tensor& target, int64_t ignored) { return number_of(target.ne(ignored)); }

at::Tensor cross_entropy_of_ids(const at::Tensor& logits, const at::Tensor& ids) {
  const bool by_device = has_device_kernel(ModelOperation::cross_entropy, logits);
  const at::Tensor rows = (by_device ? logits : widen({logits})[0]).reshape({-1, logits.size(-1)}), flat = ids.reshape({-1});
  return fits_class_loss(rows, flat) ? class_loss(rows, flat, kIgnoreIndex) : summed_loss(rows, flat, 0.0);
}

LossValue cross_entropy(const Tensors& outputs, const at::Tensor& target) { return cross_entropy_of(outputs, target, 0.0); }

Loss smoothed_cross_entropy(double smoothing) {
  if (!(smoothing >= 0.0 && smoothing < 1.0))
    throw InputError(fmt::format("loss: a label smoothing of {}; it must be in [0, 1)", smoothing));
  return SmoothedCrossEntropy{smoothing};
}

LossCount count_hits(const Tensors& outputs, const at::Tensor& target) {
  // An ignored target is negative, so it never equals a class.
  const auto [logits, labels] = logits_and_labels(outputs, target);
  return number_of(logits.argmax(-1).eq(labels));
}

LossCount count_top5(const Tensors& outputs, const at::Tensor& target) {
  constexpr int64_t kPlaces = 5;
  const auto [logits, labels] = logits_and_labels(outputs, target);
  const at::Tensor label = labels.clamp(0, logits.size(-1) - 1).unsqueeze(-1);
  const at::Tensor own = logits.gather(-1, label);
  const at::Tensor lower = at::arange(logits.size(-1), labels.options()).lt(label);
  const at::Tensor larger = logits.gt(own).bitwise_or_(logits.eq(own).bitwise_and_(lower));
  return number_of(larger.sum(-1).lt(kPlaces).bitwise_and_(label.squeeze(-1).eq(labels)));
}

Hits top5_of(int64_t classes) { return classes > 5 ? Hits(count_top5).of_any_type() : Hits(); }

Hits hits_of(const Loss& loss) {
  const auto* function = loss.target<LossValue (*)(const Tensors&, const at::Tensor&)>();
  const bool of_classes = (function && *function == cross_entropy) || loss.target<SmoothedCrossEntropy>();
  return of_classes ? Hits(count_hits).of_any_type() : Hits();
}

}  // namespace weft
