#include "weft/nn/loss/weighted_cross_entropy.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "weft/base/error.h"
#include "weft/nn/id_checks.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/upload.h"

namespace weft {
namespace {

constexpr int64_t kUncounted = -100;

class WeightedCrossEntropy {
 public:
  WeightedCrossEntropy(at::Tensor weights, double smoothing)
      : weights_(std::make_shared<at::Tensor>(std::move(weights))), smoothing_(smoothing) {}

  LossValue operator()(const Tensors& outputs, const at::Tensor& target) const {
    const bool of_ids = !target.defined() || !target.is_floating_point();
    const int64_t classes = checked_logits(outputs, target, of_ids).size(-1);
    if (classes != weights_->numel())
      throw InputError(fmt::format("loss: {} class weights, logits of {}", weights_->numel(), classes));
    const at::Tensor rows = outputs.front().reshape({-1, classes});
    const at::Tensor flat = of_ids ? checked_ids("loss: target", target, classes, kUncounted).reshape({-1})
                                   : target.reshape({-1, classes}).to(rows.scalar_type());
    const at::Tensor weights = weights_on(rows);
    const at::Tensor losses = at::cross_entropy_loss(rows, flat, weights, at::Reduction::None, kUncounted, smoothing_);
    if (!of_ids) return {sum_of_rows(losses), rows.size(0)};
    const at::Tensor counted = flat.ne(kUncounted);
    const at::Tensor own = weights.to(at::kDouble).index_select(0, flat.clamp_min(0)).mul(counted);
    return {sum_of_rows(losses), number_of(counted), sum_of_rows(own)};
  }

 private:
  /// A device keeps them from the first step on.
  at::Tensor weights_on(const at::Tensor& logits) const {
    if (logits.is_meta()) return at::empty_like(*weights_, logits.options());
    if (weights_->device() != logits.device()) *weights_ = upload(*weights_, logits.device());
    return weights_->to(logits.scalar_type());
  }

  std::shared_ptr<at::Tensor> weights_;
  double smoothing_;
};

}  // namespace

Loss weighted_cross_entropy(const std::vector<double>& weights, double smoothing) {
  const auto bad = std::find_if_not(weights.begin(), weights.end(), [](double w) { return w >= 0.0 && std::isfinite(w); });
  if (bad != weights.end()) throw InputError(fmt::format("loss: a class weight of {}; it must be at least 0", *bad));
  return WeightedCrossEntropy(at::tensor(weights, at::TensorOptions(at::kFloat)), smoothing);
}

}  // namespace weft
