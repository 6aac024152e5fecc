#include <ATen/core/Reduction.h>
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

}  // namespace weft
