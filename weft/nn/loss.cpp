#include <ATen/core/Reduction.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ne.h>

#include "weft/nn/model.h"

namespace weft {

namespace {
constexpr int64_t kIgnoreIndex = -100;
}

LossValue cross_entropy(const Tensors& outputs, const at::Tensor& target) {
  const at::Tensor& logits = outputs.front();
  const at::Tensor flat_target = target.reshape({-1});
  at::Tensor sum =
      at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}), flat_target, {}, at::Reduction::Sum, kIgnoreIndex);
  const at::Tensor count = flat_target.ne(kIgnoreIndex).sum();
  return {sum, count.is_meta() ? flat_target.numel() : count.item<int64_t>()};
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
