#include "weft/nn/loss/class_loss.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "weft/base/error.h"
#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/device_kernels/layer_kernels.h"
#include "weft/nn/graph.h"
#include "weft/nn/kernel_record.h"
#include "weft/nn/kernels/cross_entropy_kernels.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_classes(const at::Tensor& target, int64_t classes, int64_t ignored) {
  const auto* ids = target.const_data_ptr<int64_t>();
  const auto is_none = [&](int64_t id) { return id != ignored && (id < 0 || id >= classes); };
  const auto* found = std::find_if(ids, ids + target.numel(), is_none);
  if (found == ids + target.numel()) return;
  throw InputError(
      fmt::format("loss: target {} at position {} is not one of the {} classes of the logits", *found, found - ids, classes));
}

/// A sum above float32's largest becomes infinity, as in float32 operators: the loss diverged.
double as_float(double sum) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return std::abs(sum) > kLargest ? std::copysign(std::numeric_limits<double>::infinity(), sum) : sum;
}

double run_rows(const at::Tensor& logits, const at::Tensor& target, int64_t ignored, const at::Tensor& gradient) {
  const int64_t rows = logits.size(0), classes = logits.size(1);
  check_classes(target, classes, ignored);
  std::vector<double> losses(static_cast<size_t>(rows));
  const auto* x = logits.const_data_ptr<float>();
  auto* dx = gradient.defined() ? gradient.mutable_data_ptr<float>() : nullptr;
  parallel_for(rows, pieces_worth_a_thread(classes), [&](int64_t begin, int64_t end) {
    cross_entropy_rows({.logits = x + begin * classes,
                        .targets = target.const_data_ptr<int64_t>() + begin,
                        .losses = losses.data() + begin,
                        .gradient = dx ? dx + begin * classes : nullptr,
                        .rows = end - begin,
                        .classes = classes,
                        .ignored = ignored});
  });
  add_up_in_tree(losses.data(), rows, 1);
  return rows > 0 ? losses.front() : 0.0;
}

struct ClassLossFunction : torch::autograd::Function<ClassLossFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& target, int64_t ignored,
                            bool with_gradient) {
    const at::Tensor x = logits.contiguous(), gradient = with_gradient ? at::empty_like(x) : at::Tensor();
    at::Tensor sum = at::empty({}, logits.options());
    if (const KernelRecord record("weft::class_losses", {x, gradient}); has_elements(sum))
      sum.fill_(as_float(run_rows(x, target.contiguous(), ignored, gradient)));
    if (with_gradient) context->save_for_backward({gradient});
    return sum;
  }

  /// Works in place: a second backward of the same graph is refused, as the saved tensor has changed.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("loss");
    return {context->get_saved_variables().front().mul_(gradients.front()), {}, {}, {}};
  }
};

/// Of logits whose classes checked_ids() has checked.
struct DeviceClassLoss : torch::autograd::Function<DeviceClassLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& target, int64_t ignored) {
    const at::Tensor x = logits.contiguous(), classes = target.contiguous();
    const DeviceLosses made = class_losses_on_device(x, classes, ignored);
    context->save_for_backward({x, classes, made.log_sums});
    context->saved_data["ignored"] = ignored;
    return made.losses.sum();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("loss");
    const variable_list saved = context->get_saved_variables();
    const int64_t ignored = context->saved_data["ignored"].toInt();
    return {class_loss_gradient_on_device(gradients.front(), saved[0], saved[1], saved[2], ignored), {}, {}};
  }
};

bool is_by_cpu(const at::Tensor& logits) {
  return has_weft_kernel(ModelOperation::cross_entropy, logits.device()) && logits.scalar_type() == at::kFloat;
}

}  // namespace

bool fits_class_loss(const at::Tensor& logits, const at::Tensor& target) {
  if (!logits.defined() || !target.defined()) return false;
  return logits.device() == target.device() && target.scalar_type() == at::kLong && logits.dim() == 2 && logits.size(1) > 0 &&
         target.dim() == 1 && target.size(0) == logits.size(0) &&
         (is_by_cpu(logits) || has_device_kernel(ModelOperation::cross_entropy, logits));
}

at::Tensor class_loss(const at::Tensor& logits, const at::Tensor& target, int64_t ignored) {
  const TensorChecks check("loss");
  check.floats("logits", logits);
  check.that(logits.dim() == 2 && logits.size(1) > 0, "logits", logits, "[rows, classes]");
  check.sizes("target", target, {logits.size(0)}, logits);
  check.that(target.scalar_type() == at::kLong, "target", target, "Long");
  check.that(fits_class_loss(logits, target), "logits", logits, "Float on the CPU, or on a device and not empty");
  if (!is_by_cpu(logits)) return DeviceClassLoss::apply(logits, target, ignored);
  return ClassLossFunction::apply(logits, target, ignored, at::GradMode::is_enabled() && logits.requires_grad());
}

}  // namespace weft
