#include "weft/nn/images/batch_statistics.h"

#include <ATen/TensorOperators.h>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

/// Moves the running statistics towards the mean and the unbiased variance of `count` values. As in at::batch_norm(), autograd
/// does not see the change: they share memory with weights that backward reads.
void move_running(const BatchNormState& state, const BatchStatistics& now) {
  const auto move = [&](const at::Tensor& running, const at::Tensor& value) {
    running.variable_data().mul_(1.0 - state.momentum).add_(value, state.momentum);
  };
  move(state.running_mean, now.mean);
  move(state.running_var, now.var * (now.count / (now.count - 1.0)));
}

}  // namespace

void check_state(const at::Tensor& x, const BatchNormState& state, bool training) {
  const TensorChecks check("batch norm");
  check.floats("x", x, 2);
  check.that(x.size(1) > 0, "x", x, "[samples, channels, ...] with at least one channel");
  check.floating("weight", state.weight, {x.size(1)}, x);
  check.floating("bias", state.bias, {x.size(1)}, x);
  const bool narrow = x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf;
  const auto check_running = [&](const char* name, const at::Tensor& running) {
    check.floating(name, running, {x.size(1)}, x);
    const at::ScalarType type = running.scalar_type();
    check.that(type == state.running_mean.scalar_type() && (type == x.scalar_type() || (narrow && type == at::kFloat)), name,
               running, "of the type of x, or Float if x is narrower");
    check.constant(name, running);
    if (training) check.place(name, running, {x.size(1)}, x);
  };
  check_running("running_mean", state.running_mean);
  check_running("running_var", state.running_var);
}

BatchStatistics batch_statistics(const at::Tensor& sums, int64_t own_count, const BatchNormState& state, const Group& group) {
  const TensorChecks check("batch norm");
  check.sizes("sums", sums, {TensorChecks::kAny}, sums);
  check.that(sums.scalar_type() == at::kDouble && sums.numel() % 2 == 1, "sums", sums, "Double [2 channels + 1]");
  const int64_t channels = sums.numel() / 2;
  check.place("running_mean", state.running_mean, {channels}, sums);
  check.place("running_var", state.running_var, {channels}, sums);
  group.all_reduce(sums, ReduceOp::sum, "statistics of samples").wait();
  const at::Tensor count = sums[2 * channels];
  const double known = own_count < 2 && has_elements(sums) ? count.item<double>() : 2.0;
  if (known < 2.0) {
    throw InputError(
        fmt::format("batch norm: {} values per channel over all ranks normalised together; it needs 2 or more: larger "
                    "micro-batches",
                    static_cast<int64_t>(known)));
  }
  const at::Tensor mean = sums.narrow(0, 0, channels) / count;
  const at::Tensor var = (sums.narrow(0, channels, channels) / count).sub_(mean.square()).clamp_min_(0.0);
  const at::ScalarType type = state.running_mean.scalar_type();
  BatchStatistics now{mean.to(type), var.to(type), count};
  move_running(state, now);
  return now;
}

std::pair<at::Tensor, at::Tensor> slope_and_offset(const at::Tensor& sums, const at::Tensor& weight, const at::Tensor& root,
                                                   const at::Tensor& count) {
  const TensorChecks check("batch norm");
  check.floating("weight", weight, {TensorChecks::kAny}, weight);
  const int64_t channels = weight.numel();
  check.floating("sums", sums, {2 * channels}, weight);
  check.floating("root", root, {channels}, weight);
  check.that(count.scalar_type() == at::kDouble && count.dim() == 0, "count", count, "a Double scalar");
  const at::Tensor scale = weight.to(at::kDouble) / root / count.neg();
  return {sums.narrow(0, channels, channels).mul(scale).div_(root), sums.narrow(0, 0, channels).mul(scale)};
}

}  // namespace weft
