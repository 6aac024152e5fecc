#include <ATen/core/Reduction.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ne.h>
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/nn/class_loss.h"
#include "weft/nn/model.h"

namespace weft {

namespace {

constexpr int64_t kIgnoreIndex = -100;

LossValue cross_entropy_of(const Tensors& outputs, const at::Tensor& target, double smoothing) {
  const int64_t classes = outputs.front().size(-1);
  const at::Tensor logits = outputs.front().reshape({-1, classes});
  const auto sum_of = [&](const at::Tensor& flat) {
    return at::cross_entropy_loss(logits, flat, {}, at::Reduction::Sum, kIgnoreIndex, smoothing);
  };
  if (target.is_floating_point()) {
    if (target.size(-1) != classes)
      throw InputError(fmt::format("loss: targets for {} classes, logits of {}", target.size(-1), classes));
    return {sum_of(target.reshape({-1, classes})), logits.size(0)};
  }
  const at::Tensor flat = target.reshape({-1});
  const at::Tensor count = flat.ne(kIgnoreIndex).sum();
  const bool by_class = smoothing == 0.0 && fits_class_loss(logits, flat);
  return {by_class ? class_loss(logits, flat, kIgnoreIndex) : sum_of(flat),
          count.is_meta() ? flat.numel() : count.item<int64_t>()};
}

}  // namespace

LossValue cross_entropy(const Tensors& outputs, const at::Tensor& target) { return cross_entropy_of(outputs, target, 0.0); }

Loss smoothed_cross_entropy(double smoothing) {
  if (!(smoothing >= 0.0 && smoothing < 1.0))
    throw InputError(fmt::format("loss: a label smoothing of {}; it must be in [0, 1)", smoothing));
  return [smoothing](const Tensors& outputs, const at::Tensor& target) { return cross_entropy_of(outputs, target, smoothing); };
}

int64_t count_hits(const Tensors& outputs, const at::Tensor& target) {
  // An ignored target is negative and so never equals a class.
  return outputs.front().argmax(-1).eq(target).sum().item<int64_t>();
}

int64_t count_top5(const Tensors& outputs, const at::Tensor& target) {
  constexpr int64_t kPlaces = 5;
  const at::Tensor& logits = outputs.front();
  const at::Tensor label = target.clamp_min(0).unsqueeze(-1);
  const at::Tensor own = logits.gather(-1, label);
  const at::Tensor lower = at::arange(logits.size(-1), target.options()).lt(label);
  const at::Tensor larger = logits.gt(own).bitwise_or_(logits.eq(own).bitwise_and_(lower));
  return larger.sum(-1).lt(kPlaces).bitwise_and_(target.ge(0)).sum().item<int64_t>();
}

Hits top5_of(int64_t classes) { return classes > 5 ? Hits(count_top5) : Hits(); }

}  // namespace weft
